// Explains to people why a job's pods are not up. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

inline constexpr char kBackOff[] = "BackOff";
inline constexpr char kWaitsForRole[] = "WaitsForRole";  // see WaitsText

struct PendingReason {
  std::string reason;   // "PodWaiting": of the condition, and of the event if it is a warning
  std::string message;  // "j-worker-1 is waiting: ImagePullBackOff: …"
  bool is_warning = true;
  bool operator==(const PendingReason&) const = default;
};

// Returns the most important reason; nullopt if pods only need time. The message stays the same as
// long as the cause does, although a kubelet words it differently at each try.
std::optional<PendingReason> FindPendingReason(const Observed& observed);

// Returns true if the Evaluator runs and does not see the checkpoints that the leading pod saves.
// As long as the leading pod does not answer, what the condition Running says stands.
bool MissesCheckpoints(const Observed& observed);

}  // namespace lockstep::controller
