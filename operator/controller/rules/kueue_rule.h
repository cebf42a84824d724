// Jobs that Kueue admits: spec.suspend follows the Workload. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Suspends the job before admission, after an eviction, and when it asks for more than was granted;
// resumes it with what was granted (fewer workers, if it is elastic). If an edit of a running job
// only repeats the requested number of workers, sets it to the granted number again, and the job
// keeps running. Recreates a Workload that no longer fits the spec. Returns nullopt if Kueue does
// not manage the job, or if only the other rules apply now. A job that has a Workload is managed
// although its queue label was removed. A job without the label, or with an unusable spec, keeps
// its Workload until it is suspended and has no pods. An edit that removes the label and resumes
// the job deletes it, too, if the job waits: Kueue has neither admitted nor evicted the Workload,
// or the job has stopped.
std::optional<Plan> PlanQueued(const Observed& observed);

// Returns the suspension that Kueue's decision requires if the API server refuses it (because the
// job violates a rule of a newer CRD, say, or the object is at its size limit); otherwise nullopt.
// The job is then stopped by its status, and the write is repeated.
std::optional<SetSuspend> RefusedSuspension(const Observed& observed);

// Returns true if Kueue has not granted, or has taken back, the quota of a job whose spec is
// unusable, or whose suspension the server refuses. Such a job is stopped without spec.suspend,
// since an object that cannot be read cannot be updated.
bool IsStoppedByKueue(const Observed& observed);

}  // namespace lockstep::controller
