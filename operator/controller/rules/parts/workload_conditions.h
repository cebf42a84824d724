// What a job tells Kueue of itself. Pure.
#pragma once

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Adds the Workload conditions that Kueue expects of a job: PodsReady, by which waitForPodsReady
// times out jobs that do not start or do not recover; and, once a job has ended and none of its
// pods runs or waits, Finished, which returns the quota. Kueue's own integration of batch/v1 Jobs
// only looks at the conditions Complete and Failed: the Job controller sets these when all pods
// have ended (since Kubernetes 1.31). A TrainingJob's conditions say how training ended, and its
// pods may outlive that: for as long as they like with cleanPodPolicy None, else for their grace
// period.
void AddWorkloadConditions(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
