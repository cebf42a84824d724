// A Kubernetes object as JSON, with readers for metadata and conditions. Independent of any kind.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::kube {

using Object = nlohmann::json;

// A resource type, e.g. {"", "v1", "Pod", "pods"}.
struct Kind {
  std::string group, version, kind, plural;
  bool namespaced = true;
  std::string ApiVersion() const;  // "v1", "training.lockstep.dev/v1"
  bool operator==(const Kind&) const = default;
};

struct Key {
  std::string namespace_name, name;
  auto operator<=>(const Key&) const = default;
};

// Readers of members. If the member is absent or of another type, they return the value noted here.
// A number beyond the type's range reads as the nearest that is in it.
const Object& Member(const Object& object, const char* key);      // null
std::string TextMember(const Object& object, const char* key);    // ""
int IntMember(const Object& object, const char* key);             // 0
std::int64_t Int64Member(const Object& object, const char* key);  // 0
const Object& ListMember(const Object& object, const char* key);  // an empty list

// Copies each member of `from` into `to`. No-op if `from` is not an object.
void MergeMembers(const Object& from, Object& to);
// Appends each entry of `from` that the list `to` lacks. No-op if `from` is not a list.
void AppendMissing(const Object& from, Object& to);

// Returns the first condition of this type in the status, or null if there is none.
const Object& ConditionOf(const Object& status, const char* type);
bool IsTrueCondition(const Object& condition);

// Readers of metadata. They return an empty value if the field is absent or of another type.
Key KeyOf(const Object& object);
std::string Name(const Object& object);
std::string Namespace(const Object& object);
std::string Uid(const Object& object);
std::string ResourceVersion(const Object& object);
std::string Label(const Object& object, const std::string& key);
bool IsBeingDeleted(const Object& object);
// Returns the owner reference with controller: true, or null if there is none.
const Object& ControllerOf(const Object& object);

inline const Kind kPodKind{"", "v1", "Pod", "pods"};
inline const Kind kServiceKind{"", "v1", "Service", "services"};
inline const Kind kSecretKind{"", "v1", "Secret", "secrets"};
inline const Kind kEventKind{"events.k8s.io", "v1", "Event", "events"};
// The same objects with other names of fields. Kubernetes' roles view, edit and admin may read
// these alone.
inline const Kind kCoreEventKind{"", "v1", "Event", "events"};

}  // namespace lockstep::kube
