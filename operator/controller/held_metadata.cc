#include "operator/controller/held_metadata.h"

#include <utility>

namespace lockstep::controller {
namespace {

constexpr std::size_t kLongest = 4096;
constexpr char kAppliedCopy[] = "kubectl.kubernetes.io/last-applied-configuration";

}  // namespace

kube::Object OwnedMetadata(const kube::Object& object) {
  kube::Object owned = kube::Object::object();
  const auto metadata = object.find("metadata");
  if (metadata == object.end()) return owned;
  for (const char* key : {"labels", "annotations", "ownerReferences", "finalizers"}) {
    if (const auto found = metadata->find(key); found != metadata->end()) owned[key] = *found;
  }
  if (const auto annotations = owned.find("annotations"); annotations != owned.end()) {
    annotations->erase(kAppliedCopy);
  }
  return owned;
}

std::optional<std::string> HeldMetadata(const kube::Object& object) {
  std::string text = OwnedMetadata(object).dump();
  if (text.size() > kLongest) return std::nullopt;
  return text;
}

}  // namespace lockstep::controller
