// Extracts an object's identity from the bytes of a watch event as they arrive, without keeping
// them. Pure. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "operator/kube/object.h"

namespace lockstep::kube {

// For events that are too long to parse: memory use does not depend on their length. Expects JSON
// as an API server writes it and detects no faults; from other bytes it reads nothing, or nonsense,
// but never fails.
class IdentityScanner {
 public:
  // `bytes` may begin and end anywhere.
  void Feed(std::string_view bytes);

  // Returns {"type": …, "object": {"apiVersion": …, "kind": …, "metadata": {…}}} with those of the
  // members name, namespace, uid, resourceVersion and deletionTimestamp that were found. The
  // controlling owner is not read: such an object counts as nobody's child.
  Object event() const;

 private:
  void OnByte(char byte);
  void OnTextEnd();
  // True if the value at the current path is part of the identity.
  bool IsWanted() const;

  static constexpr std::size_t kDeepest = 3;  // event, object, metadata
  std::string path_[kDeepest];                // the current member at each level
  std::size_t depth_ = 0;                     // open objects and lists
  std::size_t lists_ = 0;                     // of depth_, the levels from the outermost list down
  bool in_text_ = false, escaped_ = false, is_name_ = false, kept_ = false;
  std::string text_;
  Object event_ = Object::object();
};

}  // namespace lockstep::kube
