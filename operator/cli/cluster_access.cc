#include "operator/cli/cluster_access.h"

#include <utility>

#include "base/status.h"

namespace lockstep::cli {

absl::StatusOr<ClusterAccess> ReachCluster(const ClusterOptions& options) {
  auto config = kube::LoadKubeconfig(options.kubeconfig, options.context);
  const bool unasked = options.kubeconfig.empty() && options.context.empty();
  if (absl::IsNotFound(config.status()) && unasked) {
    auto in_cluster = kube::InClusterConfig();
    if (in_cluster.ok()) config = std::move(in_cluster);
  }
  if (!config.ok()) return config.status();
  ClusterAccess access;
  access.namespace_name =
      options.namespace_name.empty() ? config->namespace_name : options.namespace_name;
  LOCKSTEP_ASSIGN_OR_RETURN(
      access.client, kube::MakeRestClient(*std::move(config), {.user_agent = "lockstep-cli"}));
  return access;
}

}  // namespace lockstep::cli
