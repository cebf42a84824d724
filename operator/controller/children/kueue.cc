#include "operator/controller/children/kueue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "api/v1/names.h"
#include "base/hmac.h"
#include "base/rfc3339.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

using kube::Member;
using kube::Object;
using kube::TextMember;

constexpr char kQueueLabel[] = "kueue.x-k8s.io/queue-name";
constexpr char kPriorityLabel[] = "kueue.x-k8s.io/priority-class";
constexpr char kMaxExecutionLabel[] = "kueue.x-k8s.io/max-exec-time-seconds";
constexpr char kJobUidLabel[] = "kueue.x-k8s.io/job-uid";
constexpr std::string_view kTimeExceeded = "MaximumExecutionTimeExceeded";  // why it was evicted
constexpr std::string_view kProvisioningPrefix = "provreq.kueue.x-k8s.io/";
// Topology-aware scheduling: what a template asks for, and what Kueue looks for in a pod that waits
// for its nodes.
constexpr char kRequired[] = "kueue.x-k8s.io/podset-required-topology";
constexpr char kPreferred[] = "kueue.x-k8s.io/podset-preferred-topology";
constexpr char kUnconstrained[] = "kueue.x-k8s.io/podset-unconstrained-topology";
constexpr char kSliceRequired[] = "kueue.x-k8s.io/podset-slice-required-topology";
constexpr char kSliceSize[] = "kueue.x-k8s.io/podset-slice-size";
constexpr char kGroupName[] = "kueue.x-k8s.io/podset-group-name";
constexpr char kTopologyGate[] = "kueue.x-k8s.io/topology";
constexpr char kPodSetLabel[] = "kueue.x-k8s.io/podset";
constexpr char kTopologyLabel[] = "kueue.x-k8s.io/tas";  // Kueue before 0.11 looks for it
constexpr char kWorkloadAnnotation[] = "kueue.x-k8s.io/workload";

// Return the member, replaced by an empty one if it is absent or of another type.
Object& ObjectAt(Object& object, const char* key) {
  Object& member = object[key];
  if (!member.is_object()) member = Object::object();
  return member;
}
Object& ListIn(Object& object, const char* key) {
  Object& member = object[key];
  if (!member.is_array()) member = Object::array();
  return member;
}

// Returns the entry of a list whose member `key` is `value`, added if there is none.
Object& EntryIn(Object& list, const char* key, const std::string& value) {
  const auto it = std::ranges::find_if(
      list, [&](const Object& entry) { return TextMember(entry, key) == value; });
  if (it != list.end()) return *it;
  list.push_back({{key, value}});
  return list.back();
}

// The order in which Kueue's own integrations list roles.
constexpr api::Role kPodSetOrder[] = {api::Role::kChief, api::Role::kParameterServer,
                                      api::Role::kWorker, api::Role::kEvaluator};

// The boolean or the number, in a form that Go's strconv takes, as Kueue does. Other texts stay:
// the API server refuses them, and names the field.
Object BooleanOf(const std::string& text) {
  for (const char* yes : {"1", "t", "T", "true", "True", "TRUE"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "f", "F", "false", "False", "FALSE"}) {
    if (text == no) return false;
  }
  return text;
}
Object NumberOf(const std::string& text) {
  int number = 0;
  return absl::SimpleAtoi(text, &number) ? Object(number) : Object(text);
}

// As Kueue's own integrations read the annotations of a template (NewPodSetTopologyRequest in its
// pkg/controller/jobframework). Null: the template asks for nothing.
Object TopologyRequestOf(const Object& annotations) {
  const auto has = [&annotations](const char* key) { return annotations.contains(key); };
  Object request;
  if (has(kRequired)) {
    request["required"] = TextMember(annotations, kRequired);
  } else if (has(kPreferred)) {
    request["preferred"] = TextMember(annotations, kPreferred);
  } else if (has(kUnconstrained)) {
    request["unconstrained"] = BooleanOf(TextMember(annotations, kUnconstrained));
  }
  if (has(kGroupName) && (has(kRequired) || has(kPreferred))) {
    request["podSetGroupName"] = TextMember(annotations, kGroupName);
  }
  if (has(kSliceRequired) && has(kSliceSize)) {
    request["podSetSliceRequiredTopology"] = TextMember(annotations, kSliceRequired);
    request["podSetSliceSize"] = NumberOf(TextMember(annotations, kSliceSize));
  }
  // Neighbours in the order of indexes become neighbours in the topology. In a group, Kueue wants
  // one order for all roles, which no label has.
  const bool is_grouped = request.contains("podSetGroupName");
  if (!request.is_null() && !is_grouped) request["podIndexLabel"] = api::kLabelReplicaIndex;
  return request;
}

Object PodSetOf(const api::TrainingJob& job, const Settings& settings, api::Role role) {
  const api::ReplicaSpec& replicas = job.spec.replica_specs.at(role);
  Object set = {{"name", api::RoleName(role)},
                {"count", replicas.replicas},
                {"template", {{"spec", PodSpecOf(job, settings, role)}}}};
  const Object& metadata = Member(*replicas.tmpl, "metadata");
  for (const char* key : {"labels", "annotations"}) {
    if (Member(metadata, key).is_object()) set["template"]["metadata"][key] = metadata.at(key);
  }
  Object topology = TopologyRequestOf(Member(metadata, "annotations"));
  if (!topology.is_null()) set["topologyRequest"] = std::move(topology);
  if (job.spec.elastic && role == api::Role::kWorker) {
    set["minCount"] = job.spec.elastic->min_replicas;
  }
  return set;
}

Object PodSetsOf(const api::TrainingJob& job, const Settings& settings) {
  Object sets = Object::array();
  for (const api::Role role : kPodSetOrder) {
    if (ReplicaCount(job, role) > 0) sets.push_back(PodSetOf(job, settings, role));
  }
  return sets;
}

// The member of a Workload's status with the time of its past admissions.
const char* ExecutionTimeKey(const Object& workload) {
  const bool is_old =
      TextMember(workload, "apiVersion") == fmt::format("{}/{}", kKueueGroup, kKueueV1Beta1);
  return is_old ? "accumulatedPastExexcutionTimeSeconds"  // its spelling
                : "accumulatedPastExecutionTimeSeconds";
}

// Kueue does the same to the Workloads of its own integrations when they lose their admission
// (SyncAdmittedCondition in its pkg/workload). Without it, the limit of the time would start anew
// with each admission.
void AddExecutionTime(Object& workload, Time now) {
  const Object& admitted = kube::ConditionOf(Member(workload, "status"), "Admitted");
  if (!kube::IsTrueCondition(admitted)) return;
  const auto since = ParseRfc3339(TextMember(admitted, "lastTransitionTime"));
  if (!since || *since > now) return;
  const char* key = ExecutionTimeKey(workload);
  const std::int64_t seconds =
      kube::IntMember(workload["status"], key) +
      std::chrono::duration_cast<std::chrono::seconds>(now - *since).count();
  workload["status"][key] =
      std::min<std::int64_t>(seconds, std::numeric_limits<std::int32_t>::max());
}

// `reason`: that of the eviction. When an administrator sets spec.active again, Kueue lets a
// Workload queue only if the reason is one of these two (the second before 0.10), and not if it
// goes on with why, as DeactivatedDueToMaximumExecutionTimeExceeded does.
std::string RequeuedReason(const std::string& reason) {
  for (const char* deactivated : {"Deactivated", "InactiveWorkload"}) {
    if (reason.starts_with(deactivated)) return deactivated;
  }
  return reason;
}

}  // namespace

std::string QueueName(const api::TrainingJob& job) {
  const auto it = job.metadata.labels.find(kQueueLabel);
  return it == job.metadata.labels.end() ? "" : it->second;
}

bool IsQueueingLabel(std::string_view key) {
  return key == kQueueLabel || key == kPriorityLabel || key == kMaxExecutionLabel;
}

bool IsQueueingAnnotation(std::string_view key) {
  return key.starts_with(kProvisioningPrefix);
}

bool IsQueued(const api::TrainingJob& job, const Settings& settings) {
  return settings.kueue && !QueueName(job).empty();
}

std::optional<PriorityReference> PriorityOf(const api::TrainingJob& job) {
  const auto label = job.metadata.labels.find(kPriorityLabel);
  if (label != job.metadata.labels.end())
    return PriorityReference{kWorkloadPriorityKind, label->second};
  const auto& policy = job.spec.run_policy.scheduling_policy;
  if (policy && !policy->priority_class.empty()) {
    return PriorityReference{kPriorityKind, policy->priority_class};
  }
  for (const api::Role role : kPodSetOrder) {
    const auto replicas = job.spec.replica_specs.find(role);
    if (replicas == job.spec.replica_specs.end()) continue;
    const std::string name =
        TextMember(Member(*replicas->second.tmpl, "spec"), "priorityClassName");
    if (!name.empty()) return PriorityReference{kPriorityKind, name};
  }
  return std::nullopt;
}

std::string MaxExecutionTime(const api::TrainingJob& job) {
  const auto it = job.metadata.labels.find(kMaxExecutionLabel);
  return it == job.metadata.labels.end() ? "" : it->second;
}

bool HasOtherTimeLimit(const ObservedWorkload& workload, const api::TrainingJob& job) {
  const std::string limit = MaxExecutionTime(job);
  return workload.max_execution_time.value_or(limit) != limit;
}

std::string WorkloadName(const api::TrainingJob& job) {
  return "trainingjob-" + job.metadata.name;
}

std::string TemplatesHash(const api::TrainingJob& job) {
  std::string templates;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (spec.replicas > 0) {
      templates += fmt::format("{}={}\n", api::RoleName(role), *spec.tmpl.Text());
    }
  }
  return fmt::format("{}{}", kTemplatesScheme, ToHex(Sha256(templates)));
}

int MinWorkers(const api::TrainingJob& job) {
  return job.spec.elastic ? job.spec.elastic->min_replicas : 0;
}

bool IsForOtherPods(const ObservedWorkload& workload, const api::TrainingJob& job,
                    const Settings& settings) {
  if (IsOfPresentScheme(workload.templates)) return workload.templates != TemplatesHash(job);
  return workload.resources != ResourcesHash(PodSetsOf(job, settings));
}

Object BuildWorkload(const api::TrainingJob& job, const Settings& settings,
                     std::optional<std::int64_t> priority) {
  Object spec = {{"queueName", QueueName(job)}, {"podSets", PodSetsOf(job, settings)}};
  if (const auto reference = PriorityOf(job); reference && priority) {
    spec["priorityClassRef"] = {{"group", reference->kind.group},
                                {"kind", reference->kind.kind},
                                {"name", reference->name}};
    spec["priority"] = *priority;
  }
  Object metadata = ChildMetadata(job, WorkloadName(job));
  metadata["labels"][kJobUidLabel] = job.metadata.uid;
  metadata["annotations"][api::kAnnotationTemplates] = TemplatesHash(job);
  metadata["annotations"][api::kAnnotationMinWorkers] = std::to_string(MinWorkers(job));
  for (const auto& [key, value] : job.metadata.annotations) {
    if (IsQueueingAnnotation(key)) metadata["annotations"][key] = value;
  }
  const std::string most = MaxExecutionTime(job);
  if (!most.empty()) spec["maximumExecutionTimeSeconds"] = NumberOf(most);
  metadata["annotations"][kMaxExecutionAnnotation] = most;
  return {{"apiVersion", kWorkloadKind.ApiVersion()},
          {"kind", kWorkloadKind.kind},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

Object WorkloadIn(Object workload, const kube::Kind& kind) {
  Object& spec = workload.at("spec");
  if (kind.version != kKueueV1Beta1 || !spec.contains("priorityClassRef")) return workload;
  const Object reference = std::move(spec.at("priorityClassRef"));
  spec.erase("priorityClassRef");
  spec["priorityClassName"] = TextMember(reference, "name");
  spec["priorityClassSource"] = TextMember(reference, "group") == kKueueGroup
                                    ? "kueue.x-k8s.io/workloadpriorityclass"
                                    : "scheduling.k8s.io/priorityclass";
  return workload;
}

void ApplyGrant(const PodSetGrant& grant, const api::TrainingJob& job, api::Role role,
                Object& pod) {
  Object& spec = pod.at("spec");
  if (!grant.node_selector.empty())
    kube::MergeMembers(grant.node_selector, ObjectAt(spec, "nodeSelector"));
  if (!grant.tolerations.empty())
    kube::AppendMissing(grant.tolerations, ListIn(spec, "tolerations"));
  for (const auto& [key, granted] :
       {std::pair("labels", &grant.labels), std::pair("annotations", &grant.annotations)}) {
    if (!granted->empty()) kube::MergeMembers(*granted, ObjectAt(pod.at("metadata"), key));
  }
  if (!grant.has_topology) return;
  kube::AppendMissing(Object::array({{{"name", kTopologyGate}}}), ListIn(spec, "schedulingGates"));
  Object& labels = ObjectAt(pod.at("metadata"), "labels");
  labels[kPodSetLabel] = api::RoleName(role);
  labels[kTopologyLabel] = "true";
  Object& annotations = ObjectAt(pod.at("metadata"), "annotations");
  annotations[kWorkloadAnnotation] = WorkloadName(job);
  // Kueue recognizes such pods by what they ask for. A flavor with a topology chooses nodes for
  // pods that ask for nothing, too.
  const bool asks = annotations.contains(kRequired) || annotations.contains(kPreferred) ||
                    annotations.contains(kUnconstrained);
  if (!asks) annotations[kUnconstrained] = "true";
}

Object WithWorkloadCondition(Object workload, const std::string& type, bool value,
                             const std::string& reason, const std::string& message, Time now) {
  Object& condition = EntryIn(ListIn(workload["status"], "conditions"), "type", type);
  const std::string text = value ? "True" : "False";
  if (TextMember(condition, "status") != text) {
    condition["lastTransitionTime"] = FormatApiTime(now);
  }
  condition["status"] = text;
  condition["reason"] = reason;
  condition["message"] = message;
  const Object& generation = Member(Member(workload, "metadata"), "generation");
  if (generation.is_number_integer()) condition["observedGeneration"] = generation;
  return workload;
}

Object WithReclaimableWorkers(Object workload, int workers) {
  const std::string name(api::RoleName(api::Role::kWorker));
  EntryIn(ListIn(workload["status"], "reclaimablePods"), "name", name)["count"] = workers;
  return workload;
}

Object Released(Object workload, Time now) {
  const Object& evicted = kube::ConditionOf(Member(workload, "status"), "Evicted");
  const std::string reason = TextMember(evicted, "reason");
  const std::string message = TextMember(evicted, "message");
  if (reason.ends_with(kTimeExceeded)) {
    // The next admission has the whole time again. Kueue clears the total, but not one that this
    // operator has written: server-side apply leaves what another manager owns.
    workload["status"].erase(ExecutionTimeKey(workload));
  } else {
    AddExecutionTime(workload, now);
  }
  workload["status"].erase("admission");
  workload["status"].erase("reclaimablePods");  // the next grant is for all pods
  workload =
      WithWorkloadCondition(std::move(workload), "QuotaReserved", false, "Pending", message, now);
  workload = WithWorkloadCondition(std::move(workload), "Admitted", false, "NoReservation",
                                   "the workload has no reservation", now);
  // Kueue limits the time of the next start, whether or not this one had become ready.
  workload = WithWorkloadCondition(std::move(workload), kPodsReady, false, kWaitForStart,
                                   kNotYetReady, now);
  // After other evictions it waits until Kueue says that it may queue again.
  const bool requeued = reason == "Preempted" || reason == "NodeFailures";
  return WithWorkloadCondition(std::move(workload), "Requeued", requeued, RequeuedReason(reason),
                               message, now);
}

}  // namespace lockstep::controller
