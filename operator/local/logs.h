// Log files of containers: <folder>/<pod>/<attempt>.log, one per start of a process, kept across
// runs.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::local {

// Returns a path that no earlier start has used, and creates the pod's folder. If the pod has
// several containers, the name is <attempt>-<container>.log; otherwise `container` is empty.
std::string NextLogPath(const std::string& folder, const std::string& pod,
                        const std::string& container);

// Returns the last whole lines of a file, at most `bytes`, as terminationMessagePolicy
// FallbackToLogsOnError does. Empty if the file cannot be read.
std::string LastLines(const std::string& path, std::size_t bytes = 2048);

// Returns a container's termination message and removes the file. Of a longer message, it returns
// the last 4096 bytes, as a kubelet does.
std::string TakeMessage(const std::string& path);

}  // namespace lockstep::local
