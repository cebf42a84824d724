#include "operator/cli/cluster/cluster_access.h"

#include <utility>

#include "base/status.h"
#include "operator/kube/server_errors.h"

namespace lockstep::cli {
namespace {

constexpr int kMostFailedLooks = 30;  // in a row

}  // namespace

absl::StatusOr<ClusterAccess> ReachCluster(const ClusterOptions& options, Duration deadline) {
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
      access.client, kube::MakeRestClient(*std::move(config), {.user_agent = "lockstep-cli",
                                                               .request_deadline = deadline}));
  return access;
}

absl::Status ForEachListed(kube::Client& client, const kube::Kind& kind, kube::ListOptions list,
                           const std::function<void(const kube::Object&)>& visit) {
  do {
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::Page page, client.List(kind, list));
    for (const kube::Object& object : page.items) visit(object);
    list.continue_token = page.continue_token;
    if (page.next_limit > 0) list.limit = page.next_limit;
  } while (!list.continue_token.empty());
  return absl::OkStatus();
}

bool FailedLooks::MayPass(const absl::Status& look) {
  in_a_row_ = look.ok() ? 0 : in_a_row_ + 1;
  return (absl::IsUnavailable(look) || kube::IsOverloaded(look)) && in_a_row_ < kMostFailedLooks;
}

}  // namespace lockstep::cli
