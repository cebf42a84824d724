#pragma once

#include <string>

#include "operator/kube/object.h"

namespace lockstep::kube {

// Returns the uid of the object's controller, or "" if it has none.
inline std::string ControllerUid(const Object& object) {
  return TextMember(ControllerOf(object), "uid");
}

}  // namespace lockstep::kube
