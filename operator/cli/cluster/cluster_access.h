// Connects the verbs that show a cluster's jobs to it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/cli/cluster/cluster_options.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::cli {

struct ClusterAccess {
  std::unique_ptr<kube::RestClient> client;
  std::string namespace_name;  // of the options, else the kubeconfig context's
};

// Makes a client of the kubeconfig's cluster; in a pod without one, of the pod's own, with its
// service account. Sends nothing: the client connects at its first request, and a request takes at
// most `deadline`. Errors: those of LoadKubeconfig and MakeRestClient.
absl::StatusOr<ClusterAccess> ReachCluster(
    const ClusterOptions& options, Duration deadline = kube::RestClientOptions().request_deadline);

// Calls `visit` with each object of the list, page by page. Errors: those of List; some objects may
// have been visited by then.
absl::Status ForEachListed(kube::Client& client, const kube::Kind& kind, kube::ListOptions list,
                           const std::function<void(const kube::Object&)>& visit);

// Decides for a verb that looks at a cluster again and again whether a look that failed ends it: an
// API server restarts now and then, and a watch takes hours. Not thread-safe.
class FailedLooks {
 public:
  // Takes the result of each look. Returns true if the server cannot be reached or is overloaded,
  // and fewer than 30 looks in a row have failed: then the next one may succeed.
  bool MayPass(const absl::Status& look);

 private:
  int in_a_row_ = 0;
};

}  // namespace lockstep::cli
