// Converts a TrainingJob object into what the rules read.
#pragma once

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns the job as a cache holds it, with templates and layers as text, which copies parse on
// first use (see SharedJson). An invalid job has neither, since no pods are created for it. Of an
// object that is not a well-formed TrainingJob, only metadata and the readable parts of spec and
// status are filled in.
ObservedJob ObserveJob(const kube::Object& object);

// Returns the same for a job of whose name `before` is known. Most changes are statuses that the
// operator itself has written: then the spec is taken from there, and not read, checked and packed
// again.
ObservedJob ObserveJobAgain(kube::Object object, const ObservedJob& before);

}  // namespace lockstep::controller
