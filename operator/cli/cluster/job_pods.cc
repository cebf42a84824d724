#include "operator/cli/cluster/job_pods.h"

#include <fmt/format.h>

#include <string>

#include "absl/strings/numbers.h"
#include "api/v1/names.h"
#include "api/v1/role.h"
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
  const std::optional<api::Role> role = api::RoleFromName(kube::Label(pod, api::kLabelRole));
  int index = 0;
  const bool is_number = absl::SimpleAtoi(kube::Label(pod, api::kLabelReplicaIndex), &index);
  return fmt::format("{}-{}", role ? api::RoleName(*role) : "?",
                     is_number ? std::to_string(index) : "?");
}

}  // namespace lockstep::cli
