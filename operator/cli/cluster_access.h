// Connects `status` and `logs` to a cluster.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::cli {

struct ClusterOptions {
  std::string kubeconfig;      // empty: $KUBECONFIG, else ~/.kube/config
  std::string context;         // empty: the current one
  std::string namespace_name;  // empty: the context's
};

struct ClusterAccess {
  std::unique_ptr<kube::RestClient> client;
  std::string namespace_name;
};

// Connects with the kubeconfig; in a pod without one, with the pod's service account.
absl::StatusOr<ClusterAccess> ReachCluster(const ClusterOptions& options);

}  // namespace lockstep::cli
