#include "operator/cli/cluster/job_pods.h"

#include <fmt/format.h>

#include "api/v1/names.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

absl::StatusOr<std::vector<kube::Object>> ReadPods(kube::Client& client,
                                                   const api::TrainingJob& job,
                                                   std::optional<api::Role> role,
                                                   std::optional<int> index) {
  std::vector<kube::Object> pods;
  kube::ListOptions list{
      .namespace_name = job.metadata.namespace_name,
      .label_selector = fmt::format("{}={}", api::kLabelJobName, job.metadata.name)};
  if (role) list.label_selector += fmt::format(",{}={}", api::kLabelRole, api::RoleName(*role));
  if (index) list.label_selector += fmt::format(",{}={}", api::kLabelReplicaIndex, *index);
  LOCKSTEP_RETURN_IF_ERROR(
      ForEachListed(client, kube::kPodKind, list, [&](const kube::Object& pod) {
        if (kube::TextMember(kube::ControllerOf(pod), "uid") == job.metadata.uid) {
          pods.push_back(pod);
        }
      }));
  return pods;
}

std::string ReplicaName(const kube::Object& pod) {
  return fmt::format("{}-{}", kube::Label(pod, api::kLabelRole),
                     kube::Label(pod, api::kLabelReplicaIndex));
}

}  // namespace lockstep::cli
