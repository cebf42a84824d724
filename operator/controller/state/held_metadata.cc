#include "operator/controller/state/held_metadata.h"

#include <utility>

namespace lockstep::controller {
namespace {

constexpr std::size_t kLongest = 4096;

}  // namespace

kube::Object OwnedMetadata(kube::Object metadata) {
  kube::Object owned = kube::Object::object();
  if (!metadata.is_object()) return owned;
  for (const char* key : {"labels", "annotations", "ownerReferences", "finalizers"}) {
    const auto found = metadata.find(key);
    // A member that is neither object nor list is a placeholder for content that was not kept.
    if (found != metadata.end() && found->is_structured()) owned[key] = std::move(*found);
  }
  return owned;
}

std::optional<std::string> HeldMetadata(const kube::Object& object) {
  std::string text = OwnedMetadata(kube::Member(object, "metadata")).dump();
  if (text.size() > kLongest) return std::nullopt;
  return text;
}

}  // namespace lockstep::controller
