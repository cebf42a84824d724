#include "operator/local/server_rules.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/rfc3339.h"

namespace lockstep::local {
namespace {

using kube::Kind;
using kube::Object;

// Pods and Services have no generation before Kubernetes 1.33.
bool HasGeneration(const Kind& kind) {
  return HasStatus(kind) && kind.kind != "Pod" && kind.kind != "Service";
}

bool IsDnsSubdomain(const std::string& name) {
  const auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > 253 || !alnum(name.front()) || !alnum(name.back())) {
    return false;
  }
  for (const char c : name) {
    if (!alnum(c) && c != '-' && c != '.') return false;
  }
  return true;
}

// Returns everything but metadata and status: what `generation` counts.
Object SpecOf(Object object) {
  object.erase("metadata");
  object.erase("status");
  return object;
}

std::string PhaseOf(const Object& pod) {
  const Object::json_pointer phase("/status/phase");
  return pod.contains(phase) ? pod[phase].get<std::string>() : std::string();
}

// A Secret's stringData is write-only and is stored in data. Its values are texts: those of a job's
// file have been checked, and we write no others.
void EncodeStringData(Object& secret) {
  if (!secret.contains("stringData")) return;
  for (const auto& [key, value] : secret["stringData"].items()) {
    secret["data"][key] = absl::Base64Escape(value.get<std::string>());
  }
  secret.erase("stringData");
}

void SetOrErase(Object& object, const char* field, const Object& from) {
  if (from.contains(field)) {
    object[field] = from[field];
  } else {
    object.erase(field);
  }
}

// Keeps the metadata that only the server sets.
void KeepSystemMetadata(const Object& from, Object& to) {
  for (const char* field : {"uid", "creationTimestamp", "generation", "deletionTimestamp",
                            "deletionGracePeriodSeconds", "resourceVersion"}) {
    SetOrErase(to["metadata"], field, from["metadata"]);
  }
}

}  // namespace

std::string DescribeCall(const char* verb, const Kind& kind, const kube::Key& key) {
  return fmt::format("{} {} {}{}{}", verb, kind.plural, key.namespace_name,
                     key.namespace_name.empty() ? "" : "/", key.name);
}

bool HasStatus(const Kind& kind) {
  return kind.kind != "ConfigMap" && kind.kind != "Secret" && kind.kind != "Event" &&
         kind.kind != "Lease";
}

bool HasFinalizers(const Object& object) {
  const Object& metadata = object["metadata"];
  return metadata.contains("finalizers") && !metadata["finalizers"].empty();
}

absl::Status CheckNew(const Kind& kind, const Object& object) {
  const std::string where = DescribeCall("create", kind, kube::KeyOf(object));
  if (!object.is_object() || !object.contains("metadata")) {
    return absl::InvalidArgumentError(fmt::format("{}: no metadata", where));
  }
  const std::string api_version = object.value("apiVersion", "");
  const std::string kind_name = object.value("kind", "");
  if (api_version != kind.ApiVersion() || kind_name != kind.kind) {
    return absl::InvalidArgumentError(fmt::format("{}: found {} {}, expected {} {}", where,
                                                  api_version, kind_name, kind.ApiVersion(),
                                                  kind.kind));
  }
  if (kind.namespaced && kube::Namespace(object).empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: metadata.namespace is empty", where));
  }
  if (!kube::ResourceVersion(object).empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: metadata.resourceVersion is set on a new object", where));
  }
  const std::string name = kube::Name(object);
  const bool generated = name.empty() && object["metadata"].contains("generateName");
  if (!generated && !IsDnsSubdomain(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: metadata.name: found \"{}\", expected lower-case letters, digits, '-' and '.'", where,
        name));
  }
  return absl::OkStatus();
}

Object CreatedObject(const Kind& kind, Object object, const ServerFields& fields) {
  Object& metadata = object["metadata"];
  metadata["uid"] = fields.uid;
  metadata["creationTimestamp"] = FormatApiTime(fields.time);
  metadata.erase("deletionTimestamp");
  metadata.erase("deletionGracePeriodSeconds");
  metadata.erase("generation");
  if (HasGeneration(kind)) metadata["generation"] = 1;
  if (HasStatus(kind)) object.erase("status");
  if (kind.kind == "Secret") EncodeStringData(object);
  if (kind == kube::kPodKind) {
    object["status"] = {{"phase", "Pending"}};
    if (!fields.node_name.empty()) object["spec"]["nodeName"] = fields.node_name;
  }
  return object;
}

absl::StatusOr<Object> UpdatedObject(const Kind& kind, const Object& old, Object update) {
  KeepSystemMetadata(old, update);
  if (HasStatus(kind)) SetOrErase(update, "status", old);
  if (kind.kind == "Secret") EncodeStringData(update);
  if (SpecOf(update) == SpecOf(old)) return update;
  if (kind == kube::kPodKind) {
    return absl::InvalidArgumentError(fmt::format("{}: a pod's spec may not change",
                                                  DescribeCall("update", kind, kube::KeyOf(old))));
  }
  if (HasGeneration(kind)) {
    update["metadata"]["generation"] = old["metadata"]["generation"].get<std::int64_t>() + 1;
  }
  return update;
}

Object WithStatusOf(const Object& update, Object old) {
  SetOrErase(old, "status", update);
  return old;
}

std::int64_t GraceMember(const Object& object, const char* key) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 32;
  if (kube::Member(object, key).is_null()) return kDefaultGraceSeconds;
  return std::clamp<std::int64_t>(kube::Int64Member(object, key), 0, kLongest);
}

std::int64_t GraceSeconds(const Object& pod) {
  const Object spec = pod.value("spec", Object::object());
  const std::string phase = PhaseOf(pod);
  if (spec.value("nodeName", "").empty() || phase == "Succeeded" || phase == "Failed") return 0;
  return GraceMember(spec, "terminationGracePeriodSeconds");
}

Object TerminatingObject(Object object, Time now, std::int64_t grace_seconds) {
  if (!kube::IsBeingDeleted(object)) {
    const Time end = now + std::chrono::seconds(grace_seconds);
    object["metadata"]["deletionTimestamp"] = FormatApiTime(end);
  }
  object["metadata"]["deletionGracePeriodSeconds"] = grace_seconds;
  return object;
}

}  // namespace lockstep::local
