#include "api/v1/validate_pod_template.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>

#include "base/json_reader.h"

namespace lockstep::api {
namespace {

using Json = nlohmann::json;

enum class Type { kText, kInteger, kFlag, kQuantity, kObject, kList, kMap };

struct Shape;
struct Member {
  const char* name;
  const Shape* shape;
};
struct Shape {
  Type type;
  std::span<const Member> members = {};  // of an object
  const Shape* entry = nullptr;          // of a list or a map
};

constexpr Shape kText{Type::kText};
constexpr Shape kInteger{Type::kInteger};
constexpr Shape kFlag{Type::kFlag};
constexpr Shape kQuantity{Type::kQuantity};
constexpr Shape kTexts{.type = Type::kList, .entry = &kText};
constexpr Shape kTextMap{.type = Type::kMap, .entry = &kText};
constexpr Shape kQuantities{.type = Type::kMap, .entry = &kQuantity};

constexpr Member kKeyRefMembers[] = {{"name", &kText}, {"key", &kText}, {"optional", &kFlag}};
constexpr Shape kKeyRef{Type::kObject, kKeyRefMembers};
constexpr Member kFieldRefMembers[] = {{"fieldPath", &kText}};
constexpr Shape kFieldRef{Type::kObject, kFieldRefMembers};
constexpr Member kResourceRefMembers[] = {{"resource", &kText}, {"divisor", &kQuantity}};
constexpr Shape kResourceRef{Type::kObject, kResourceRefMembers};
constexpr Member kValueFromMembers[] = {{"fieldRef", &kFieldRef},
                                        {"resourceFieldRef", &kResourceRef},
                                        {"configMapKeyRef", &kKeyRef},
                                        {"secretKeyRef", &kKeyRef}};
constexpr Shape kValueFrom{Type::kObject, kValueFromMembers};
constexpr Member kVariableMembers[] = {
    {"name", &kText}, {"value", &kText}, {"valueFrom", &kValueFrom}};
constexpr Shape kVariable{Type::kObject, kVariableMembers};
constexpr Shape kEnv{.type = Type::kList, .entry = &kVariable};

constexpr Member kEnvSourceMembers[] = {
    {"prefix", &kText}, {"configMapRef", &kKeyRef}, {"secretRef", &kKeyRef}};
constexpr Shape kEnvSource{Type::kObject, kEnvSourceMembers};
constexpr Shape kEnvFrom{.type = Type::kList, .entry = &kEnvSource};

constexpr Member kMountMembers[] = {{"name", &kText},
                                    {"mountPath", &kText},
                                    {"subPath", &kText},
                                    {"subPathExpr", &kText},
                                    {"readOnly", &kFlag}};
constexpr Shape kMount{Type::kObject, kMountMembers};
constexpr Shape kMounts{.type = Type::kList, .entry = &kMount};

constexpr Member kResourcesMembers[] = {{"limits", &kQuantities}, {"requests", &kQuantities}};
constexpr Shape kResources{Type::kObject, kResourcesMembers};

constexpr Member kPortMembers[] = {{"name", &kText}, {"containerPort", &kInteger}};
constexpr Shape kPort{Type::kObject, kPortMembers};
constexpr Shape kPorts{.type = Type::kList, .entry = &kPort};

constexpr Member kContainerMembers[] = {{"name", &kText},
                                        {"image", &kText},
                                        {"command", &kTexts},
                                        {"args", &kTexts},
                                        {"workingDir", &kText},
                                        {"env", &kEnv},
                                        {"envFrom", &kEnvFrom},
                                        {"ports", &kPorts},
                                        {"resources", &kResources},
                                        {"restartPolicy", &kText},
                                        {"terminationMessagePath", &kText},
                                        {"terminationMessagePolicy", &kText},
                                        {"volumeMounts", &kMounts}};
constexpr Shape kContainer{Type::kObject, kContainerMembers};
constexpr Shape kContainers{.type = Type::kList, .entry = &kContainer};

constexpr Member kItemMembers[] = {{"key", &kText}, {"path", &kText}};
constexpr Shape kItem{Type::kObject, kItemMembers};
constexpr Shape kItems{.type = Type::kList, .entry = &kItem};
constexpr Member kConfigMembers[] = {
    {"name", &kText}, {"secretName", &kText}, {"optional", &kFlag}, {"items", &kItems}};
constexpr Shape kConfig{Type::kObject, kConfigMembers};
constexpr Member kClaimMembers[] = {{"claimName", &kText}};
constexpr Shape kClaim{Type::kObject, kClaimMembers};
constexpr Member kHostPathMembers[] = {{"path", &kText}, {"type", &kText}};
constexpr Shape kHostPath{Type::kObject, kHostPathMembers};
constexpr Member kEmptyDirMembers[] = {{"medium", &kText}};
constexpr Shape kEmptyDir{Type::kObject, kEmptyDirMembers};
constexpr Member kVolumeMembers[] = {{"name", &kText},         {"configMap", &kConfig},
                                     {"secret", &kConfig},     {"persistentVolumeClaim", &kClaim},
                                     {"hostPath", &kHostPath}, {"emptyDir", &kEmptyDir}};
constexpr Shape kVolume{Type::kObject, kVolumeMembers};
constexpr Shape kVolumes{.type = Type::kList, .entry = &kVolume};

constexpr Member kPodSpecMembers[] = {{"containers", &kContainers},
                                      {"initContainers", &kContainers},
                                      {"volumes", &kVolumes},
                                      {"nodeName", &kText},
                                      {"restartPolicy", &kText},
                                      {"serviceAccountName", &kText},
                                      {"terminationGracePeriodSeconds", &kInteger}};
constexpr Shape kPodSpec{Type::kObject, kPodSpecMembers};
constexpr Member kMetadataMembers[] = {{"labels", &kTextMap}, {"annotations", &kTextMap}};
constexpr Shape kMetadata{Type::kObject, kMetadataMembers};
constexpr Member kTemplateMembers[] = {{"metadata", &kMetadata}, {"spec", &kPodSpec}};
constexpr Shape kTemplate{Type::kObject, kTemplateMembers};

const char* Expected(Type type) {
  switch (type) {
    case Type::kText:
      return "a string";
    case Type::kInteger:
      return "an integer";
    case Type::kFlag:
      return "true or false";
    case Type::kQuantity:
      return "a quantity";
    case Type::kList:
      return "a list";
    case Type::kObject:
    case Type::kMap:
      break;
  }
  return "an object";
}

bool HasType(const Json& json, Type type) {
  switch (type) {
    case Type::kText:
      return json.is_string();
    case Type::kInteger:
      return json.is_number_integer();
    case Type::kFlag:
      return json.is_boolean();
    case Type::kQuantity:
      return json.is_string() || json.is_number();
    case Type::kList:
      return json.is_array();
    case Type::kObject:
    case Type::kMap:
      break;
  }
  return json.is_object();
}

void Check(const Json& json, const Shape& shape, const std::string& path,
           std::vector<FieldError>& errors) {
  if (!HasType(json, shape.type)) {
    AppendFault(path, &json, Expected(shape.type), errors);
    return;
  }
  for (const Member& member : shape.members) {
    const auto found = json.find(member.name);
    if (found == json.end() || found->is_null()) continue;
    Check(*found, *member.shape, fmt::format("{}.{}", path, member.name), errors);
  }
  if (shape.type == Type::kList) {
    for (std::size_t i = 0; i < json.size(); ++i) {
      Check(json[i], *shape.entry, fmt::format("{}[{}]", path, i), errors);
    }
  } else if (shape.type == Type::kMap) {
    for (const auto& [key, value] : json.items()) {
      if (!value.is_null()) Check(value, *shape.entry, fmt::format("{}.{}", path, key), errors);
    }
  }
}

}  // namespace

void ValidatePodTemplateTypes(const Json& tmpl, const std::string& path,
                              std::vector<FieldError>& errors) {
  Check(tmpl, kTemplate, path, errors);
}

}  // namespace lockstep::api
