// A TrainingJob object as rules see it.
#pragma once

#include "operator/controller/observed.h"

namespace lockstep::controller {

// Of an object that is no well-formed TrainingJob, only metadata and what can be read of status are
// filled in.
ObservedJob ObserveJob(const kube::Object& object);

}  // namespace lockstep::controller
