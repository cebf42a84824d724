// How much CPU time a container may use: what resources.limits.cpu becomes.
#pragma once

#include <optional>
#include <string>

namespace lockstep::train {

// In cores, from the control group file system at `root` (version 2, else version 1 with its `cpu`
// controller). Nothing without a limit.
std::optional<double> CpuQuota(const std::string& root);

}  // namespace lockstep::train
