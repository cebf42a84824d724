// Whether a job's replicas are up. Pure.
#pragma once

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the pod must be deleted before its replica can be recreated.
bool IsObsolete(const Observed& observed, const ObservedPod& pod);

struct Readiness {
  bool required = false;  // the replicas that the job requires are up: any one if each trains alone
  bool all = false;       // every other replica is up too
};

// A replica is up if it has completed, or if its pod is Ready or has succeeded, is not being
// deleted and is not obsolete. Without a replica that has not completed, nothing is ready.
Readiness ReadinessOf(const Observed& observed);

}  // namespace lockstep::controller
