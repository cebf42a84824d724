// Translates a container into a process: command line, environment and working directory, as the
// kubelet and the container's file system would provide them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"
#include "operator/local/path_map.h"
#include "operator/local/process.h"

namespace lockstep::local {

struct HostFacts {
  Environment env;  // inherited; the container's own variables override it
  // Contains lockstep-trainer: first on the PATH of a command that names it, last on others'.
  std::string program_dir;
  std::string current_dir;  // for containers without workingDir
  // At which the pods of the job reach each other: if `env` names a proxy, it is not for these.
  std::vector<std::string> pod_hosts = {};
};

// Expands Kubernetes' $(NAME) in env values, command and args: "$$(NAME)" becomes "$(NAME)", and a
// reference to a name that `env` lacks is left unchanged. Pure.
std::string ExpandVariables(const std::string& text, const std::map<std::string, std::string>& env);

// Sets everything but log_path, cpus and marker. Requires: `pod` has status.podIP. On failure,
// InvalidArgument or NotFound names the container and what is missing: a command (there is no image
// to take one from), a ConfigMap, a key.
absl::StatusOr<ProcessSpec> MakeProcess(const kube::Object& pod, const kube::Object& container,
                                        const PathMap& paths, const HostFacts& host,
                                        kube::Client& client);

}  // namespace lockstep::local
