#include "operator/controller/children/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "api/v1/names.h"
#include "api/v1/quantity.h"
#include "api/v1/strategy_traits.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/pod_requests.h"

namespace lockstep::controller {
namespace {

using api::Json;
using Resources = std::map<std::string, double>;

constexpr char kVolcano[] = "volcano";
constexpr char kSchedulerPlugins[] = "scheduler-plugins";
constexpr char kSchedulerPluginsName[] = "scheduler-plugins-scheduler";

const kube::Kind kVolcanoPodGroup{"scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"};
const kube::Kind kPluginsPodGroup{"scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups"};

std::string SchedulerName(const Settings& settings) {
  return settings.gang_scheduler_name == kSchedulerPlugins ? kSchedulerPluginsName
                                                           : settings.gang_scheduler_name;
}

// Returns the replicas that the group may have pods of by now. A role that waits for others is none
// of them yet: the pods that it waits for would never be placed.
std::vector<Replica> PresentMembers(const api::TrainingJob& job) {
  std::vector<Replica> members = StartedReplicas(job);
  std::erase_if(members, [](const Replica& each) { return each.role == api::Role::kEvaluator; });
  return members;
}

// Returns the gang's members that start together, at most minMember: those that are required first,
// in the order of roles.
std::vector<Replica> MembersThatStartTogether(const api::TrainingJob& job) {
  std::vector<Replica> members = PresentMembers(job);
  const auto optional = std::ranges::stable_partition(
      members, [&job](const Replica& replica) { return IsRequired(job, replica); });
  std::size_t count = members.size() - optional.size();
  if (api::TraitsOf(job.spec).trains_alone) count = std::min<std::size_t>(count, 1);
  const auto& policy = job.spec.run_policy.scheduling_policy;
  if (policy && policy->min_available) count = static_cast<std::size_t>(*policy->min_available);
  if (count < members.size()) members.resize(count);
  return members;
}

int MinMember(const api::TrainingJob& job) {
  const auto& policy = job.spec.run_policy.scheduling_policy;
  if (policy && policy->min_available) {
    // A job whose number counts its Evaluator, which is not in the group, would never start, and
    // one whose number counts replicas that have completed would not go on.
    const int others = static_cast<int>(PresentMembers(job).size());
    return std::clamp(*policy->min_available, 1, std::max(1, others));
  }
  // Not 0 once all required replicas have completed: scheduler-plugins refuses that.
  return std::max(1, static_cast<int>(MembersThatStartTogether(job).size()));
}

Json MinResources(const api::TrainingJob& job) {
  const auto& policy = job.spec.run_policy.scheduling_policy;
  if (policy && !policy->min_resources.empty()) return policy->min_resources;
  Resources sum;
  std::map<api::Role, Resources> pods;  // one per role, since a template may be large
  for (const Replica& member : MembersThatStartTogether(job)) {
    const auto [pod, is_new] = pods.try_emplace(member.role);
    if (is_new) {
      const Json& pod_template = *job.spec.replica_specs.at(member.role).tmpl;
      pod->second = PodRequests(kube::Member(pod_template, "spec"));
    }
    for (const auto& [name, value] : pod->second) sum[name] += value;
  }
  Json resources = Json::object();
  for (const auto& [name, value] : sum) resources[name] = api::FormatQuantity(value);
  return resources;
}

// As a PodGroup notes which members of its spec are the operator's.
std::string NamesOfMembers(const Json& spec) {
  std::vector<std::string> names;
  for (const auto& [name, member] : spec.items()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace

GangScheduler GangSchedulerOf(const Settings& settings) {
  if (settings.gang_scheduler_name.empty()) return GangScheduler::kNone;
  return settings.gang_scheduler_name == kVolcano ? GangScheduler::kVolcano
                                                  : GangScheduler::kSchedulerPlugins;
}

const kube::Kind& PodGroupKind(const Settings& settings) {
  return GangSchedulerOf(settings) == GangScheduler::kVolcano ? kVolcanoPodGroup : kPluginsPodGroup;
}

kube::Object BuildPodGroup(const api::TrainingJob& job, const Settings& settings) {
  const kube::Kind& kind = PodGroupKind(settings);
  Json spec = {{"minMember", MinMember(job)}};
  if (Json resources = MinResources(job); !resources.empty()) {
    spec["minResources"] = std::move(resources);
  }
  const auto& policy = job.spec.run_policy.scheduling_policy;
  if (policy && GangSchedulerOf(settings) == GangScheduler::kVolcano) {
    if (!policy->queue.empty()) spec["queue"] = policy->queue;
    if (!policy->priority_class.empty()) spec["priorityClassName"] = policy->priority_class;
  } else if (policy && policy->schedule_timeout_seconds) {
    spec["scheduleTimeoutSeconds"] = *policy->schedule_timeout_seconds;
  }
  kube::Object metadata = ChildMetadata(job, job.metadata.name);
  metadata["annotations"][api::kAnnotationPodGroupMembers] = NamesOfMembers(spec);
  return {{"apiVersion", kind.ApiVersion()},
          {"kind", kind.kind},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

void UpdatePodGroupTo(const kube::Object& built, kube::Object& group) {
  kube::Object& annotations = group["metadata"]["annotations"];
  if (!annotations.is_object()) annotations = kube::Object::object();
  kube::Object& spec = group["spec"];
  if (!spec.is_object()) spec = kube::Object::object();
  const std::string noted = kube::TextMember(annotations, api::kAnnotationPodGroupMembers);
  for (const absl::string_view name : absl::StrSplit(noted, ',', absl::SkipEmpty())) {
    spec.erase(std::string(name));
  }
  spec.update(built.at("spec"));
  annotations[api::kAnnotationPodGroupMembers] = NamesOfMembers(built.at("spec"));
}

void JoinPodGroup(const api::TrainingJob& job, const Settings& settings, api::Role role,
                  kube::Object& pod) {
  const GangScheduler scheduler = GangSchedulerOf(settings);
  if (scheduler == GangScheduler::kNone) return;
  kube::Object& spec = pod.at("spec");
  if (!spec.contains("schedulerName")) spec["schedulerName"] = SchedulerName(settings);
  // A scheduler counts every pod of the group towards minMember, which leaves out the Evaluator.
  // Volcano makes a group of its own of such a pod, in the queue that it names.
  if (role == api::Role::kEvaluator) {
    const auto& policy = job.spec.run_policy.scheduling_policy;
    if (scheduler == GangScheduler::kVolcano && policy && !policy->queue.empty()) {
      pod.at("metadata")["annotations"]["scheduling.volcano.sh/queue-name"] = policy->queue;
    }
    return;
  }
  kube::Object& metadata = pod.at("metadata");
  switch (scheduler) {
    case GangScheduler::kNone:
      break;
    case GangScheduler::kVolcano:
      metadata["annotations"][kVolcanoGroup] = job.metadata.name;
      metadata["annotations"]["volcano.sh/task-spec"] = api::RoleName(role);
      break;
    case GangScheduler::kSchedulerPlugins:
      metadata["labels"][kPluginsGroup] = job.metadata.name;
      break;
  }
}

}  // namespace lockstep::controller
