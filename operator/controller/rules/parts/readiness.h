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
  // As `required`, but only of roles that have started (HasStarted) and have not been up before in
  // this attempt (HasBeenUp).
  bool started = false;
};

// All three are false if every replica has completed.
Readiness ReadinessOf(const Observed& observed);

// Returns true if a job that has run cannot go on because a replica that it requires is not up.
// Such a job is Running or Restarting, or, while roles still wait for others, Pending; then only
// the roles that have been up before count. Replicas of a role that has not started never count,
// nor do workers that a running group can do without until it takes them in (GroupWorkers). If
// replicas train alone, returns true only if the job is not Pending and none of the replicas that
// have not completed is up. False if the job is suspended, being deleted or foreign (IsForeign).
bool LacksReplicas(const Observed& observed);

// Adds to the status's startedRoles, with an event, each role whose dependencies have all reached
// the status that it waits for. A role stays in the list until the attempt is closed, whatever
// becomes of the roles that it depends on. Returns true if it added any: their pods are created,
// and count into the gang, from the next plan on.
bool AddStartedRoles(const Observed& observed, Plan& plan);

// Adds the roles that have started to the status's runningRoles, while others still wait.
// Requires: ReadinessOf(observed).started.
void NoteRunningRoles(const Observed& observed, api::TrainingJobStatus& status);

// Returns which roles wait, and what for: "Worker waits until PS is ready (1 of 2)"; empty if none
// does.
std::string WaitsText(const Observed& observed);

}  // namespace lockstep::controller
