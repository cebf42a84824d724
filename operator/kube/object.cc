#include "operator/kube/object.h"

namespace lockstep::kube {
namespace {

// The member, or null if `json` is no object or has no such member.
const Object* Find(const Object& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto it = json.find(key);
  return it == json.end() ? nullptr : &*it;
}

std::string Text(const Object* json) {
  return json != nullptr && json->is_string() ? json->get<std::string>() : std::string();
}

std::string MetadataText(const Object& object, const char* key) {
  const Object* metadata = Find(object, "metadata");
  return metadata == nullptr ? std::string() : Text(Find(*metadata, key));
}

}  // namespace

std::string Kind::ApiVersion() const {
  return group.empty() ? version : group + "/" + version;
}

Key KeyOf(const Object& object) {
  return {Namespace(object), Name(object)};
}
std::string Name(const Object& object) {
  return MetadataText(object, "name");
}
std::string Namespace(const Object& object) {
  return MetadataText(object, "namespace");
}
std::string Uid(const Object& object) {
  return MetadataText(object, "uid");
}
std::string ResourceVersion(const Object& object) {
  return MetadataText(object, "resourceVersion");
}

std::string Label(const Object& object, const std::string& key) {
  const Object* metadata = Find(object, "metadata");
  const Object* labels = metadata == nullptr ? nullptr : Find(*metadata, "labels");
  return labels == nullptr ? std::string() : Text(Find(*labels, key.c_str()));
}

bool IsBeingDeleted(const Object& object) {
  return !MetadataText(object, "deletionTimestamp").empty();
}

std::string ControllerUid(const Object& object) {
  const Object* metadata = Find(object, "metadata");
  const Object* owners = metadata == nullptr ? nullptr : Find(*metadata, "ownerReferences");
  if (owners == nullptr || !owners->is_array()) return {};
  for (const Object& owner : *owners) {
    const Object* controller = Find(owner, "controller");
    if (controller != nullptr && controller->is_boolean() && controller->get<bool>()) {
      return Text(Find(owner, "uid"));
    }
  }
  return {};
}

}  // namespace lockstep::kube
