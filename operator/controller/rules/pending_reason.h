// What keeps a job's pods from being up, in words for people. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

struct PendingReason {
  std::string reason;   // "PodWaiting": of the condition, and of an event if it is a warning
  std::string message;  // "j-worker-1 is waiting: ImagePullBackOff: …"
  bool is_warning = true;
  bool operator==(const PendingReason&) const = default;
};

// The weightiest one; nothing if pods only need time. The message stays the same while the cause
// does, though a kubelet words it differently at each try.
std::optional<PendingReason> FindPendingReason(const Observed& observed);

}  // namespace lockstep::controller
