// Which replicas have finished in the present attempt, and what they have left. Pure.
#pragma once

#include <vector>

#include "api/v1/training_job.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

// Returns true if the pod's success counts (SuccessCounts) and its replica's work is done. A helper
// that has ended since its pod is being deleted may have been told to: running it again does less
// harm than not.
bool ReplicaFinished(const Observed& observed, const ObservedPod& pod);
// Returns true if the pod shows that its replica has finished in the present attempt, and the
// status notes which ones of its role have: workers, and helpers.
bool ShowsCompletion(const Observed& observed, const ObservedPod& pod);

// Notes such a replica. Does nothing if the status has it already.
void AddCompleted(const Replica& replica, api::TrainingJobStatus& status);

// Notes those of the present attempt that have succeeded, since their pods may be deleted later.
void RecordCompleted(const Observed& observed, api::TrainingJobStatus& status);

// Returns the results of an Independent job's processes that have ended: those in its status and
// those that its pods have left. Takes a pod's word for its own variants only, since tenants decide
// what their pods report.
std::vector<api::VariantResult> VariantResults(const Observed& observed);

}  // namespace lockstep::controller
