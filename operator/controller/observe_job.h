// A TrainingJob object as rules see it.
#pragma once

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// As a cache holds it: templates and layers as text, which copies parse when they read them (see
// SharedJson). Of an invalid job no pods are made, so it has neither; of an object that is no
// well-formed TrainingJob, only metadata and what can be read of status are filled in.
ObservedJob ObserveJob(const kube::Object& object);

}  // namespace lockstep::controller
