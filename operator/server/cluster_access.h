// How the operator reaches the API server.
#pragma once

#include "absl/status/statusor.h"
#include "operator/kube/rest/rest_client.h"
#include "operator/server/flags.h"

namespace lockstep::server {

// Returns what --kubeconfig names, else in a pod its service account, else kubectl's kubeconfig; or
// the error of the last.
absl::StatusOr<kube::RestConfig> FindCluster(const Flags& flags);

// Of all requests but those about the Lease.
kube::RestClientOptions ApiOptions(const Flags& flags);
kube::RestClientOptions LeaseOptions();

}  // namespace lockstep::server
