// A container as a process: its command line, environment and folder, as the kubelet and the
// container's file system would have made them.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"
#include "operator/local/path_map.h"
#include "operator/local/process.h"

namespace lockstep::local {

struct HostFacts {
  std::map<std::string, std::string> env;  // inherited; the container's own comes over it
  std::string program_dir;                 // put first on PATH: where lockstep-trainer lies
  std::string current_dir;                 // of containers without workingDir
};

// Kubernetes' $(NAME) in env values, command and args: "$$(NAME)" is "$(NAME)", and a name that is
// not in `env` is left as it stands. Pure.
std::string ExpandVariables(const std::string& text, const std::map<std::string, std::string>& env);

// All but log_path, cpus and marker. `pod` has status.podIP. InvalidArgument or NotFound names the
// container and what it lacks: a command (there is no image to take one from), a ConfigMap, a key.
absl::StatusOr<ProcessSpec> MakeProcess(const kube::Object& pod, const kube::Object& container,
                                        const PathMap& paths, const HostFacts& host,
                                        kube::Client& client);

}  // namespace lockstep::local
