// The message that a container leaves when it ends. The kubelet copies it into the pod's status,
// where the operator reads it.
#pragma once

#include <optional>
#include <string>

namespace lockstep::train {

// Returns where the message goes: `named` (LOCKSTEP_TERMINATION_MESSAGE_PATH), else Kubernetes'
// default path if the kubelet created a file there. Returns "" outside a container, where nothing
// would read it.
std::string TerminationMessagePath(const std::optional<std::string>& named);

// Replaces the file at `path` by `message`. Does nothing if `path` is empty; logs a failure.
void LeaveTerminationMessage(const std::string& path, const std::string& message);

}  // namespace lockstep::train
