#include "operator/controller/state/observed_workload.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "api/v1/names.h"
#include "base/hmac.h"
#include "base/shorten.h"
#include "operator/controller/state/counted_quantities.h"
#include "operator/kube/cache/store.h"

namespace lockstep::controller {
namespace {

using kube::IntMember;
using kube::ListMember;
using kube::Member;
using kube::Object;
using kube::TextMember;

// Bytes. Legitimate ones are far below.
constexpr std::size_t kLongestWorkloadName = 253, kLongestEviction = 16'384, kLongestGrant = 8192;

constexpr const char* kPodSetUpdates[] = {"nodeSelector", "labels", "annotations", "tolerations"};

// Returns how many bytes of JSON ReadGrants would keep.
std::size_t GrantedBytes(const Object& status) {
  std::size_t bytes = 0;
  const auto add = [&bytes](const Object& member) {
    if (member.is_null()) return;
    bytes += member.dump(-1, ' ', false, Object::error_handler_t::replace).size();
  };
  for (const Object& entry : ListMember(Member(status, "admission"), "podSetAssignments")) {
    add(Member(entry, "flavors"));
  }
  for (const Object& check : ListMember(status, "admissionChecks")) {
    for (const Object& update : ListMember(check, "podSetUpdates")) {
      for (const char* key : kPodSetUpdates) add(Member(update, key));
    }
  }
  return bytes;
}

std::map<api::Role, PodSetGrant> ReadGrants(const Object& status) {
  std::map<api::Role, PodSetGrant> grants;
  for (const Object& entry : ListMember(Member(status, "admission"), "podSetAssignments")) {
    const auto role = api::RoleFromName(TextMember(entry, "name"));
    if (!role) continue;
    PodSetGrant& grant = grants[*role];
    grant.count = IntMember(entry, "count");
    grant.has_topology = Member(entry, "topologyAssignment").is_object();
    const Object& flavors = Member(entry, "flavors");
    if (!flavors.is_object()) continue;
    for (const auto& [resource, flavor] : flavors.items()) {
      if (flavor.is_string()) grant.flavors.insert(flavor.get<std::string>());
    }
  }
  for (const Object& check : ListMember(status, "admissionChecks")) {
    for (const Object& update : ListMember(check, "podSetUpdates")) {
      const auto role = api::RoleFromName(TextMember(update, "name"));
      if (!role || !grants.contains(*role)) continue;
      PodSetGrant& grant = grants[*role];
      kube::MergeMembers(Member(update, "nodeSelector"), grant.node_selector);
      kube::MergeMembers(Member(update, "labels"), grant.labels);
      kube::MergeMembers(Member(update, "annotations"), grant.annotations);
      kube::AppendMissing(Member(update, "tolerations"), grant.tolerations);
    }
  }
  return grants;
}

void AddUnlessEmpty(const char* key, Object member, Object& to) {
  if (!member.empty()) to[key] = std::move(member);
}

Object CountedResources(const Object& resources) {
  Object counted;
  for (const char* key : {"limits", "requests"}) {
    AddUnlessEmpty(key, CountedQuantities(Member(resources, key)), counted);
  }
  AddUnlessEmpty("claims", Member(resources, "claims"), counted);
  return counted;
}

Object CountedOfSet(const Object& set) {
  const Object& pod = Member(Member(set, "template"), "spec");
  Object counted = {{"name", TextMember(set, "name")}};
  for (const char* key : {"initContainers", "containers"}) {
    for (const Object& container : ListMember(pod, key)) {
      Object entry = {{"name", TextMember(container, "name")},
                      {"restartPolicy", TextMember(container, "restartPolicy")}};
      AddUnlessEmpty("resources", CountedResources(Member(container, "resources")), entry);
      counted[key].push_back(std::move(entry));
    }
  }
  AddUnlessEmpty("resources", CountedResources(Member(pod, "resources")), counted);
  AddUnlessEmpty("overhead", CountedQuantities(Member(pod, "overhead")), counted);
  for (const char* key : {"resourceClaims", "runtimeClassName", "nodeSelector"}) {
    AddUnlessEmpty(key, Member(pod, key), counted);
  }
  return counted;
}

}  // namespace

std::string ResourcesHash(const Object& pod_sets) {
  Object counted = Object::array();
  if (pod_sets.is_array()) {
    for (const Object& set : pod_sets) counted.push_back(CountedOfSet(set));
  }
  return ToHex(Sha256(counted.dump(-1, ' ', false, Object::error_handler_t::replace)));
}

ObservedWorkload ReadWorkload(const Object& workload) {
  ObservedWorkload read;
  const Object& annotations = Member(Member(workload, "metadata"), "annotations");
  read.templates =
      Shortened(TextMember(annotations, api::kAnnotationTemplates), kLongestWorkloadName);
  const Object& spec = Member(workload, "spec");
  if (!IsOfPresentScheme(read.templates)) read.resources = ResourcesHash(Member(spec, "podSets"));
  read.queue = Shortened(TextMember(spec, "queueName"), kLongestWorkloadName);
  const Object& reference = Member(spec, "priorityClassRef");  // of v1beta2
  read.priority_class = Shortened(
      reference.is_object() ? TextMember(reference, "name") : TextMember(spec, "priorityClassName"),
      kLongestWorkloadName);
  if (annotations.is_object() && annotations.contains(kMaxExecutionAnnotation)) {
    read.max_execution_time =
        Shortened(TextMember(annotations, kMaxExecutionAnnotation), kLongestWorkloadName);
  }
  for (const Object& set : ListMember(spec, "podSets")) {
    const auto role = api::RoleFromName(TextMember(set, "name"));
    if (!role) continue;
    read.counts[*role] = IntMember(set, "count");
    if (set.contains("minCount")) read.min_workers = IntMember(set, "minCount");
  }
  // An older operator noted none.
  const std::string noted = TextMember(annotations, api::kAnnotationMinWorkers);
  if (int min = 0; absl::SimpleAtoi(noted, &min)) read.min_workers = min;
  const Object& status = Member(workload, "status");
  for (const Object& entry : ListMember(status, "reclaimablePods")) {
    if (api::RoleFromName(TextMember(entry, "name")) != api::Role::kWorker) continue;
    read.reclaimable_workers = IntMember(entry, "count");
  }
  const auto holds = [&status](const char* type) {
    return kube::IsTrueCondition(kube::ConditionOf(status, type));
  };
  read.reserved = holds("QuotaReserved");
  read.admitted = holds("Admitted");
  read.finished = holds("Finished");
  read.pods_ready = holds("PodsReady");
  read.readiness =
      Shortened(TextMember(kube::ConditionOf(status, "PodsReady"), "reason"), kLongestWorkloadName);
  read.evicted = holds("Evicted");
  if (read.evicted) {
    const Object& evicted = kube::ConditionOf(status, "Evicted");
    read.eviction = Shortened(
        fmt::format("{}: {}", TextMember(evicted, "reason"), TextMember(evicted, "message")),
        kLongestEviction, " …");
  }
  if (!read.reserved && !read.admitted) return read;
  if (const std::size_t bytes = GrantedBytes(status); bytes > kLongestGrant) {
    if (std::exchange(read.admitted, false) && !read.evicted) {
      read.eviction = fmt::format("its admission grants {} bytes of JSON, expected at most {}",
                                  bytes, kLongestGrant);
    }
    return read;
  }
  read.granted = ReadGrants(status);
  return read;
}

kube::FieldMask WorkloadFields() {
  kube::FieldMask fields = kube::IdentityFields();
  // The mask has only the levels of a topology, which may have thousands of domains.
  for (const char* path : {"metadata.annotations",
                           "spec.queueName",
                           "spec.priorityClassName",
                           "spec.priorityClassRef.name",
                           "spec.podSets.name",
                           "spec.podSets.count",
                           "spec.podSets.minCount",
                           "spec.podSets.template.spec.containers.name",
                           "spec.podSets.template.spec.containers.restartPolicy",
                           "spec.podSets.template.spec.containers.resources",
                           "spec.podSets.template.spec.initContainers.name",
                           "spec.podSets.template.spec.initContainers.restartPolicy",
                           "spec.podSets.template.spec.initContainers.resources",
                           "spec.podSets.template.spec.resources",
                           "spec.podSets.template.spec.overhead",
                           "spec.podSets.template.spec.resourceClaims",
                           "spec.podSets.template.spec.runtimeClassName",
                           "spec.podSets.template.spec.nodeSelector",
                           "status.conditions.type",
                           "status.conditions.status",
                           "status.conditions.reason",
                           "status.conditions.message",
                           "status.admission.podSetAssignments.name",
                           "status.admission.podSetAssignments.count",
                           "status.admission.podSetAssignments.flavors",
                           "status.admission.podSetAssignments.topologyAssignment.levels",
                           "status.reclaimablePods.name",
                           "status.reclaimablePods.count",
                           "status.admissionChecks.podSetUpdates"}) {
    fields.Add(path);
  }
  return fields;
}

void AddFlavor(const Object& flavor, PodSetGrant& grant) {
  const Object& spec = Member(flavor, "spec");
  kube::MergeMembers(Member(spec, "nodeLabels"), grant.node_selector);
  kube::AppendMissing(Member(spec, "tolerations"), grant.tolerations);
}

}  // namespace lockstep::controller
