#include "operator/cli/logs_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "api/base/status.h"
#include "operator/controller/addresses.h"
#include "operator/controller/main_container.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/replicas.h"

namespace lockstep::cli {
namespace {

using controller::Replica;

std::string KnownRoles(const api::TrainingJob& job) {
  std::vector<std::string> roles;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    roles.push_back(fmt::format("{} 0-{}", api::RoleName(role), spec.replicas - 1));
  }
  return fmt::format("{}", fmt::join(roles, ", "));
}

absl::StatusOr<Replica> FindReplica(const api::TrainingJob& job, const LogsOptions& options) {
  Replica replica = controller::LeadingReplica(job);
  if (!options.role.empty()) {
    const auto role = api::RoleFromName(options.role);
    const auto key = api::RoleFromKey(options.role);
    if (!role && !key) {
      return absl::NotFoundError(
          fmt::format("--role: found \"{}\", expected one of: {}", options.role, KnownRoles(job)));
    }
    replica.role = role ? *role : *key;
  }
  replica.index = options.index;
  if (options.role.empty() && options.index > 0) replica.role = api::Role::kWorker;
  if (options.index < 0 || options.index >= controller::ReplicaCount(job, replica.role)) {
    return absl::NotFoundError(fmt::format("job {} has no {}, only: {}", job.metadata.name,
                                           controller::Describe(replica), KnownRoles(job)));
  }
  return replica;
}

}  // namespace

absl::StatusOr<LogSource> FindLog(kube::Client& client, const LogsOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const kube::Object object,
      client.Get(controller::kTrainingJobKind, {options.namespace_name, options.job}));
  const controller::ObservedJob observed = controller::ObserveJob(object);
  if (observed.invalid) return absl::InvalidArgumentError(*observed.invalid);
  LOCKSTEP_ASSIGN_OR_RETURN(const Replica replica, FindReplica(observed.job, options));
  const kube::Key key{options.namespace_name,
                      controller::PodName(observed.job, replica.role, replica.index)};
  const auto pod = client.Get(kube::kPodKind, key);
  if (absl::IsNotFound(pod.status())) {
    return absl::NotFoundError(fmt::format(
        "pod {} does not exist: the job is {}, runPolicy.cleanPodPolicy may have deleted it",
        key.name, observed.job.status.state.empty() ? "new" : observed.job.status.state));
  }
  if (!pod.ok()) return pod.status();
  LogSource source{key, options.container};
  if (source.container.empty() && pod->contains("spec")) {
    const auto containers = pod->at("spec").value("containers", kube::Object::array());
    if (const kube::Object* main = controller::MainContainerOf(containers)) {
      source.container = kube::TextMember(*main, "name");
    }
  }
  return source;
}

}  // namespace lockstep::cli
