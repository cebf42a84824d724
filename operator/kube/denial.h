// Tells a list or watch that the API server denies us from one that fails for another reason. Pure.
#pragma once

#include "absl/status/status.h"

namespace lockstep::kube {

// Returns true if the server has answered that we have no right to it, or that it serves no such
// kind: asking again does not help until somebody changes that.
inline bool IsDenial(const absl::Status& end) {
  return absl::IsPermissionDenied(end) || absl::IsNotFound(end);
}

}  // namespace lockstep::kube
