// What Kueue has granted to a job, and whether that is enough. Pure.
#pragma once

#include <map>
#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the Workload holds quota that its job may run on.
bool HasGrant(const ObservedWorkload& workload);

// Returns true if replicas train again whose quota has been given back.
bool HasGivenBackTooMuch(const ObservedWorkload& workload, const api::TrainingJob& job);

// Returns the number of workers that an elastic job is set to so that it runs on its grant; empty
// if it asks for no more than that.
std::map<api::Role, int> GrantedCounts(const api::TrainingJob& job,
                                       const ObservedWorkload& workload);

// Returns true if the job can run on the grant, an elastic one with fewer workers.
bool IsEnough(const ObservedWorkload& workload, const api::TrainingJob& job);

// Returns true if the job's only excess over its grant is the number of workers that it requested
// before, because its manifest was applied again, say, or an autoscaler repeated its count. Another
// request would stop the job and get the same answer, so the job keeps running on its grant.
bool RunsOnItsGrant(const Observed& observed);

// Returns true for a Workload that Kueue has neither admitted nor evicted, so that it cannot have
// stopped the job: one that leaves the queue and is resumed, in one edit, waits no longer.
bool IsUntouched(const std::optional<ObservedWorkload>& workload);

// Returns true if Kueue manages the job and has not granted its quota, or has taken it back.
bool LacksQuota(const Observed& observed);

// Returns the workers that the job has asked for and been granted; nullopt if its Workload, if
// there is one, says nothing of it.
std::optional<WorkerGrant> WorkerGrantOf(const Observed& observed);

// To be called while the operator's writes of what Kueue grants fail. A job that runs with fewer
// workers than it asks for goes on with those, and its lost pods, failures and deadlines count as
// ever: then this sets the number in `observed`, and says why.
void KeepGrantedWorkers(Observed& observed);
// Adds the write of that number, which is tried until the server takes it.
void AddGrantedWorkers(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
