// What a kubeconfig file says, and how several are merged. Pure.
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
  // Of which only what each entry says is set. What cannot be used is an error when it is chosen.
  std::map<std::string, absl::StatusOr<RestConfig>> clusters, users;
};

// `source` stands before errors; relative file names are looked up in `directory`.
absl::StatusOr<Kubeconfig> ReadKubeconfig(const std::string& text, const std::string& source,
                                          const std::string& directory);

// What `into` does not say yet is taken from `from`: the first file to name an entry wins.
void MergeKubeconfig(Kubeconfig& into, Kubeconfig from);

// `context` empty: the current one. `source` stands before errors.
absl::StatusOr<RestConfig> ChooseContext(const Kubeconfig& kubeconfig, const std::string& source,
                                         const std::string& context);

}  // namespace lockstep::kube
