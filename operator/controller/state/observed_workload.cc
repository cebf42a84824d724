#include "operator/controller/state/observed_workload.h"

#include <fmt/format.h>

#include "api/v1/names.h"

namespace lockstep::controller {
namespace {

using kube::IntMember;
using kube::ListMember;
using kube::Member;
using kube::Object;
using kube::TextMember;

std::map<api::Role, PodSetGrant> ReadGrants(const Object& status) {
  std::map<api::Role, PodSetGrant> grants;
  for (const Object& entry : ListMember(Member(status, "admission"), "podSetAssignments")) {
    const auto role = api::RoleFromName(TextMember(entry, "name"));
    if (!role) continue;
    PodSetGrant& grant = grants[*role];
    grant.count = IntMember(entry, "count");
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

}  // namespace

ObservedWorkload ReadWorkload(const Object& workload) {
  ObservedWorkload read;
  read.name = kube::Name(workload);
  read.uid = kube::Uid(workload);
  const Object& annotations = Member(Member(workload, "metadata"), "annotations");
  read.templates = TextMember(annotations, api::kAnnotationTemplates);
  const Object& spec = Member(workload, "spec");
  read.queue = TextMember(spec, "queueName");
  read.priority_class = TextMember(spec, "priorityClassName");
  for (const Object& set : ListMember(spec, "podSets")) {
    if (const auto role = api::RoleFromName(TextMember(set, "name"))) {
      read.counts[*role] = IntMember(set, "count");
    }
  }
  const Object& status = Member(workload, "status");
  const auto holds = [&status](const char* type) {
    return kube::IsTrueCondition(kube::ConditionOf(status, type));
  };
  read.reserved = holds("QuotaReserved");
  read.admitted = holds("Admitted");
  read.finished = holds("Finished");
  read.pods_ready = holds("PodsReady");
  read.evicted = holds("Evicted");
  if (read.evicted) {
    const Object& evicted = kube::ConditionOf(status, "Evicted");
    read.eviction =
        fmt::format("{}: {}", TextMember(evicted, "reason"), TextMember(evicted, "message"));
  }
  if (read.admitted) read.granted = ReadGrants(status);
  return read;
}

void AddFlavor(const Object& flavor, PodSetGrant& grant) {
  const Object& spec = Member(flavor, "spec");
  kube::MergeMembers(Member(spec, "nodeLabels"), grant.node_selector);
  kube::AppendMissing(Member(spec, "tolerations"), grant.tolerations);
}

}  // namespace lockstep::controller
