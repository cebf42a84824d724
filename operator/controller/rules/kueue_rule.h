// Jobs that Kueue admits: spec.suspend follows the Workload. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
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

// Returns the workers that the job has asked for and been granted; nullopt if its Workload, if
// there is one, says nothing of it.
std::optional<WorkerGrant> WorkerGrantOf(const Observed& observed);

// To be called while the operator's writes of what Kueue grants fail. A job that runs with fewer
// workers than it asks for goes on with those, and its lost pods, failures and deadlines count as
// ever: then this sets the number in `observed`, and says why.
void KeepGrantedWorkers(Observed& observed);
// Adds the write of that number, which is tried until the server takes it.
void AddGrantedWorkers(const Observed& observed, Plan& plan);

// Returns the suspension that Kueue's decision requires if the API server refuses it (because the
// job violates a rule of a newer CRD, say, or the object is at its size limit); otherwise nullopt.
// The job is then stopped by its status, and the write is repeated.
std::optional<SetSuspend> RefusedSuspension(const Observed& observed);

// Returns true if Kueue has not granted, or has taken back, the quota of a job whose spec is
// unusable, or whose suspension the server refuses. Such a job is stopped without spec.suspend,
// since an object that cannot be read cannot be updated.
bool IsStoppedByKueue(const Observed& observed);

// Returns true if Kueue manages the job and has not granted its quota, or has taken it back.
bool LacksQuota(const Observed& observed);

// Adds the Workload conditions that Kueue expects of a job: PodsReady, by which waitForPodsReady
// times out jobs that do not start or do not recover; and, once a job has ended and none of its
// pods runs or waits, Finished, which returns the quota. Kueue's own integration of batch/v1 Jobs
// only looks at the conditions Complete and Failed: the Job controller sets these when all pods
// have ended (since Kubernetes 1.31). A TrainingJob's conditions say how training ended, and its
// pods may outlive that: for as long as they like with cleanPodPolicy None, else for their grace
// period.
void AddWorkloadConditions(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
