// Interprets the status of a Kubernetes API call. Pure functions.
#pragma once

#include "absl/status/status.h"

namespace lockstep::controller {

// Returns true if the server may have applied the write despite the error, or if the object has
// changed since it was read (Aborted).
bool MayHaveHappened(const absl::Status& status);

// Returns true if the server understood the request and rejected it, so the message is worth
// reporting to the job's owner. Callers report other failures only when they repeat.
bool IsRefusal(const absl::Status& status);

// Returns OK for NotFound, which counts as deleted, and any other status unchanged. Aborted (a
// conflict) is inconclusive, so it is returned for a retry.
absl::Status IgnoreGone(const absl::Status& status);

// Returns OK for NotFound and Aborted, and any other status unchanged. After a conflict the cache
// delivers the newer version, and the change is decided again.
absl::Status IgnoreMoved(const absl::Status& status);

}  // namespace lockstep::controller
