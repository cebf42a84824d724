// The back-off of pods that are deleted before they have started.
#pragma once

#include <map>
#include <optional>

#include "base/clock.h"
#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"
#include "operator/kube/backoff.h"

namespace lockstep::controller {

// Whoever deletes a pod that waits for a node or an image, a controller that wants it elsewhere,
// say, may do so each time. A pod that never ran has not failed, so its replacement is not charged
// and no other back-off applies: without this one, the operator would create and the other delete
// as fast as the API server answers. The first replacement comes at once, since a person may have
// deleted the pod. Not thread-safe.
class UnstartedPods {
 public:
  // Forgets the replicas whose pods have started, and those of earlier attempts. Returns the first
  // replica whose pod was created three times or more, in this attempt and by this process, and has
  // not started.
  std::optional<Replica> Note(const Observed& observed);
  void NoteCreated(const Replica& replica, SteadyTime now);
  // Removes from the plan the creates that must wait, and sets plan.requeue_after for them.
  void Bound(Plan& plan, SteadyTime now, const kube::BackoffPolicy& backoff) const;

 private:
  struct Created {
    int times = 0;
    SteadyTime last;
  };
  int attempt_ = 0;
  std::map<Replica, Created> created_;  // their pods have not been seen to start
};

}  // namespace lockstep::controller
