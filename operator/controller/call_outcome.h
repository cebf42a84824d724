// What the answer to a call of the API server means for what was asked. Pure.
#pragma once

#include "absl/status/status.h"
#include "base/clock.h"

namespace lockstep::controller {

// True if nobody knows whether the server did what it was asked for, or if it has moved on.
bool MayHaveHappened(const absl::Status& status);

// True if the server understood and said no: what it says is for the job's owner to read. Other
// failures are, too, once they come a second time.
bool IsRefusal(const absl::Status& status);

// OK for NotFound: what is gone counts as deleted. Aborted, a conflict, is inconclusive and stays.
absl::Status IgnoreGone(const absl::Status& status);

// OK for NotFound, and for Aborted: the cache will show the version that was missed, and the change
// is decided again.
absl::Status IgnoreMoved(const absl::Status& status);

// True if the server had no time for a call, which the client then repeated for as long as it may:
// the next call would take as long. An admission webhook refuses one object with the same codes,
// but at once.
bool IsUnanswered(const absl::Status& status, Duration took);

}  // namespace lockstep::controller
