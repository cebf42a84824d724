// How the operator reaches the API server.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/rest/rest_client.h"
#include "operator/kube/rest/rest_config.h"
#include "operator/server/flags.h"

namespace lockstep::server {

// Returns what --kubeconfig names, else in a pod its service account, whose files are in
// `directory`, else kubectl's kubeconfig. Errors: those of the one that it takes.
absl::StatusOr<kube::RestConfig> FindCluster(
    const Flags& flags, const std::string& directory = kube::kServiceAccountDirectory);

// ApiOptions are for all requests but those about the Lease.
kube::RestClientOptions ApiOptions(const Flags& flags);
kube::RestClientOptions LeaseOptions();

}  // namespace lockstep::server
