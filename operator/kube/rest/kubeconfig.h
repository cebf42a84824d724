// Parses and merges kubeconfig files. Pure.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/rest/rest_config.h"

namespace lockstep::kube {

struct Kubeconfig {
  struct Context {
    std::string source, cluster, user, namespace_name;
  };
  std::string current_context;
  std::map<std::string, Context> contexts;
  // Each value sets only what its entry specifies. An invalid entry is an error only when chosen.
  std::map<std::string, absl::StatusOr<RestConfig>> clusters, users;
};

// `source` prefixes errors; relative file names are resolved against `directory`.
absl::StatusOr<Kubeconfig> ReadKubeconfig(const std::string& text, const std::string& source,
                                          const std::string& directory);

// Adds to `into` what it lacks: the first file that names an entry wins.
void MergeKubeconfig(Kubeconfig& into, Kubeconfig from);

// An empty `context` selects current-context. `source` prefixes errors.
absl::StatusOr<RestConfig> ChooseContext(const Kubeconfig& kubeconfig, const std::string& source,
                                         const std::string& context);

}  // namespace lockstep::kube
