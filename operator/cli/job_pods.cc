#include "operator/cli/job_pods.h"

#include <fmt/format.h>

#include "api/v1/names.h"
#include "base/status.h"
#include "operator/cli/cluster_access.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

absl::StatusOr<std::vector<kube::Object>> ReadPods(kube::Client& client,
                                                   const api::TrainingJob& job) {
  std::vector<kube::Object> pods;
  const kube::ListOptions list{
      .namespace_name = job.metadata.namespace_name,
      .label_selector = fmt::format("{}={}", api::kLabelJobName, job.metadata.name)};
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
