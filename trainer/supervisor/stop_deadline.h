// When the replicas of a pod that ends are killed. No threads, signals or clock.
#pragma once

#include <optional>

#include "base/clock.h"

namespace lockstep::train {

// Returns the replicas' part of a pod's grace period. The rest is for the supervisor to exit and
// for the kubelet to notice.
Duration StopGrace(Duration pod_grace);

// Not thread-safe.
class StopDeadline {
 public:
  // `grace`: the time from a stop to the kill. `longest_save`: that time after a replica's failure
  // if the leading replica is saving.
  StopDeadline(Duration grace, Duration longest_save)
      : grace_(grace), longest_save_(longest_save) {}

  // The pod was asked to stop: whoever asks kills it after its grace period, whatever it does.
  void Asked(SteadyTime now);
  // A replica's failure ends the pod. No grace period runs, so a save may take up to
  // `longest_save`.
  void Failed(SteadyTime now);
  // Another pod has this one's place. No grace period runs, but the other pod waits only for
  // `patience` for the members that are still in this pod's group.
  void Superseded(SteadyTime now, Duration patience);

  bool is_set() const { return next_.has_value(); }
  // When to call IsDue next. Nullopt: the pod does not stop.
  std::optional<SteadyTime> next() const { return next_; }
  // Returns true, once, when the replicas have to be killed. `saves`: the leading replica is saving
  // the run's state.
  bool IsDue(SteadyTime now, bool saves);

 private:
  const Duration grace_, longest_save_;
  std::optional<SteadyTime> next_;
  SteadyTime last_ = SteadyTime::max();  // no save is waited for after this
  bool waits_for_save_ = false;
};

}  // namespace lockstep::train
