// The container's CPU limit (resources.limits.cpu), as the kernel enforces it.
#pragma once

#include <optional>
#include <string>

namespace lockstep::train {

// Returns the quota in cores, read from the cgroup file system at `root`: version 2, else the `cpu`
// controller of version 1. Returns nullopt if there is no limit.
std::optional<double> CpuQuota(const std::string& root);

}  // namespace lockstep::train
