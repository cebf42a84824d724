// Tells a stream that was silent for too long, as on a network that drops its packets, from one
// that ended for another reason. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace lockstep::kube {

inline constexpr char kSilence[] = "lockstep/silent";

// Returns `end` with the mark. Requires: it is not Ok.
inline absl::Status MarkSilent(absl::Status end) {
  end.SetPayload(kSilence, absl::Cord());
  return end;
}

// Returns true if a stream, such as Client::Watch, has begun, and then nothing has come for too
// long: not even a bookmark.
inline bool IsSilent(const absl::Status& end) {
  return end.GetPayload(kSilence).has_value();
}

}  // namespace lockstep::kube
