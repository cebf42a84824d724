// Log files of containers: <folder>/<pod>/<attempt>.log, one per start of a process, kept over
// runs.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::local {

// A path that no earlier start has used; makes the pod's folder. A pod of several containers has
// <attempt>-<container>.log. `container` is empty where there is one only.
std::string NextLogPath(const std::string& folder, const std::string& pod,
                        const std::string& container);

// The last lines of a file, at most `bytes`, as terminationMessagePolicy FallbackToLogsOnError has
// them. Empty if it cannot be read.
std::string LastLines(const std::string& path, std::size_t bytes = 2048);

// What a container left as its termination message, cut as a kubelet cuts it; the file is removed.
std::string TakeMessage(const std::string& path);

}  // namespace lockstep::local
