#include "operator/kube/object.h"

#include <algorithm>
#include <limits>

namespace lockstep::kube {
namespace {

const Object& Metadata(const Object& object) {
  return Member(object, "metadata");
}

}  // namespace

std::string Kind::ApiVersion() const {
  return group.empty() ? version : group + "/" + version;
}

const Object& Member(const Object& object, const char* key) {
  static const Object kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(key);
  return it == object.end() ? kNothing : *it;
}

std::string TextMember(const Object& object, const char* key) {
  const Object& member = Member(object, key);
  return member.is_string() ? member.get<std::string>() : std::string();
}

std::int64_t Int64Member(const Object& object, const char* key) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Object& member = Member(object, key);
  if (member.is_number_unsigned() && member.get<std::uint64_t>() > kMost) return kMost;
  return member.is_number_integer() ? member.get<std::int64_t>() : 0;
}

int IntMember(const Object& object, const char* key) {
  using Limits = std::numeric_limits<int>;
  return static_cast<int>(
      std::clamp<std::int64_t>(Int64Member(object, key), Limits::min(), Limits::max()));
}

const Object& ListMember(const Object& object, const char* key) {
  static const Object kNone = Object::array();
  const Object& member = Member(object, key);
  return member.is_array() ? member : kNone;
}

void MergeMembers(const Object& from, Object& to) {
  if (from.is_object()) to.update(from);
}

void AppendMissing(const Object& from, Object& to) {
  if (!from.is_array()) return;
  for (const Object& entry : from) {
    if (std::ranges::find(to, entry) == to.end()) to.push_back(entry);
  }
}

const Object& ConditionOf(const Object& status, const char* type) {
  static const Object kNothing;
  for (const Object& condition : ListMember(status, "conditions")) {
    if (TextMember(condition, "type") == type) return condition;
  }
  return kNothing;
}

bool IsTrueCondition(const Object& condition) {
  return TextMember(condition, "status") == "True";
}

Key KeyOf(const Object& object) {
  return {Namespace(object), Name(object)};
}
std::string Name(const Object& object) {
  return TextMember(Metadata(object), "name");
}
std::string Namespace(const Object& object) {
  return TextMember(Metadata(object), "namespace");
}
std::string Uid(const Object& object) {
  return TextMember(Metadata(object), "uid");
}
std::string ResourceVersion(const Object& object) {
  return TextMember(Metadata(object), "resourceVersion");
}

std::string Label(const Object& object, const std::string& key) {
  return TextMember(Member(Metadata(object), "labels"), key.c_str());
}

bool IsBeingDeleted(const Object& object) {
  return !TextMember(Metadata(object), "deletionTimestamp").empty();
}

const Object& ControllerOf(const Object& object) {
  static const Object kNobody;
  for (const Object& owner : ListMember(Metadata(object), "ownerReferences")) {
    const Object& controller = Member(owner, "controller");
    if (controller.is_boolean() && controller.get<bool>()) return owner;
  }
  return kNobody;
}

}  // namespace lockstep::kube
