#include "operator/server/cluster_access.h"

#include <cmath>

#include "operator/kube/runtime/leader_elector.h"

namespace lockstep::server {

absl::StatusOr<kube::RestConfig> FindCluster(const Flags& flags, const std::string& directory) {
  if (!flags.kubeconfig.empty()) return kube::LoadKubeconfig(flags.kubeconfig);
  auto config = kube::InClusterConfig(directory);
  if (absl::IsNotFound(config.status())) config = kube::LoadKubeconfig("");
  return config;
}

kube::RestClientOptions ApiOptions(const Flags& flags) {
  kube::RestClientOptions options;
  options.user_agent = "lockstep-operator/" LOCKSTEP_VERSION;
  options.qps = flags.kube_api_qps;
  options.burst = flags.kube_api_burst > 0 ? flags.kube_api_burst
                                           : static_cast<int>(std::ceil(flags.kube_api_qps));
  return options;
}

// Renewals share neither connections nor limits with other requests; a renewal that hangs leaves
// time for another before the deadline.
kube::RestClientOptions LeaseOptions() {
  kube::RestClientOptions options;
  options.user_agent = "lockstep-operator/" LOCKSTEP_VERSION;
  options.request_deadline = kube::LeaderElectionOptions().renew_deadline / 2;
  return options;
}

}  // namespace lockstep::server
