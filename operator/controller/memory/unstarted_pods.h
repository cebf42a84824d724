// The back-off of pods that are deleted before they have started.
#pragma once

#include <map>
#include <optional>

#include "base/clock.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"
#include "operator/kube/backoff.h"

namespace lockstep::controller {

// A pod that waits for a node is gone at once if something deletes it: a controller that wants it
// elsewhere, say. It has not failed, so nothing is charged and no other back-off applies: without
// this one, the operator would create and the other delete as fast as the API server answers. The
// first replacement comes at once, since a person may have deleted the pod. Counts creates, since
// the deletion may come before a cache has shown the pod. Not thread-safe.
class UnstartedPods {
 public:
  // Forgets the replicas whose pods have started, those that the job no longer has, and all of
  // earlier attempts. Returns the first one whose pod was created three times or more.
  std::optional<Replica> UpdateDeleted(const Observed& observed);
  void RecordCreated(const Replica& replica, SteadyTime now);
  // Removes from the plan the creates that must wait, and sets plan.requeue_after for them.
  void Bound(Plan& plan, SteadyTime now, const kube::BackoffPolicy& backoff) const;

 private:
  struct Created {
    int times = 0;
    SteadyTime last;
  };
  static SteadyTime DueOf(const Created& created, const kube::BackoffPolicy& backoff);

  int attempt_ = 0;
  std::map<Replica, Created> created_;  // their pods have not been seen to start
};

}  // namespace lockstep::controller
