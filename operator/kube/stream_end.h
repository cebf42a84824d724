// Tells a stream, such as Client::Watch, that broke from one that never began, and one that was
// silent for too long, as on a network that drops its packets, from one that broke for another
// reason. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace lockstep::kube {

inline constexpr char kBegun[] = "lockstep/begun";
inline constexpr char kSilence[] = "lockstep/silent";

// These return `end` with the mark. Require: it is not Ok.
inline absl::Status MarkBegun(absl::Status end) {
  end.SetPayload(kBegun, absl::Cord());
  return end;
}
inline absl::Status MarkSilent(absl::Status end) {
  end.SetPayload(kSilence, absl::Cord());
  return end;
}

// Returns true if the server had begun the stream before it failed.
inline bool HasBegun(const absl::Status& end) {
  return end.GetPayload(kBegun).has_value();
}
// Returns true if the stream has begun, and then nothing has come for too long: not even a
// bookmark.
inline bool IsSilent(const absl::Status& end) {
  return end.GetPayload(kSilence).has_value();
}

}  // namespace lockstep::kube
