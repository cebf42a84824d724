// Whether a job's replicas are up, and which roles wait for that before they start
// (replicaSpecs.*.dependsOn). Pure.
#pragma once

#include <string>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the pod must be deleted before its replica can be recreated.
bool IsObsolete(const Observed& observed, const ObservedPod& pod);

// Returns true if the replica has completed, or if its pod is Ready or has succeeded, is not being
// deleted and is not obsolete.
bool IsUp(const Observed& observed, const Replica& replica);

struct Readiness {
  bool required = false;  // the replicas that the job requires are up: any one if each trains alone
  bool all = false;       // every other replica is up too
  // As `required`, of the roles that wait for no other, and have not been up before (HasBeenUp).
  bool started = false;
};

// Without a replica that has not completed, nothing is ready.
Readiness ReadinessOf(const Observed& observed);

// Returns true if a job that has run lacks replicas that it cannot go on without: its state is
// Running or Restarting, and a replica that it requires is not up. While roles wait for others, it
// is Pending, and lacks replicas of the roles that have been up before. A role that waits lacks
// nothing yet, nor does a group that trains on until new workers are there. Of replicas that train
// alone, none of those that have not completed is up.
bool LacksReplicas(const Observed& observed);

// Notes in the plan's status the roles whose wait is over: all that they depend on has got so far
// in this attempt. They stay noted until the attempt is closed, whatever becomes of the others.
// Returns true if the plan notes any: the next one creates their pods, and counts them into the
// gang.
bool AddStartedRoles(const Observed& observed, Plan& plan);

// Notes in the status that the roles which have started have been up, although others wait.
// Requires: ReadinessOf().started.
void NoteRunningRoles(const Observed& observed, api::TrainingJobStatus& status);

// Returns which roles wait, and what for: "Worker waits until PS is ready (1 of 2)"; empty if none
// does.
std::string WaitsText(const Observed& observed);

}  // namespace lockstep::controller
