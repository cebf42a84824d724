// What the error of a Client's call tells of the server, beyond its code.
#pragma once

#include "absl/status/status.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// Returns `error`, marked as that of a server that is overloaded: it answered slowly, or kept
// asking to retry until the client gave up. So a next call would take long, too. Keeps Ok.
absl::Status MarkOverloaded(absl::Status error);
// Returns true if the error is so marked, or says that no answer came in time.
bool IsOverloaded(const absl::Status& error);

// True if `status` says that a ResourceQuota of the namespace has no room for the object. The API
// server uses the code and reason of a missing permission; only the message differs.
bool ExceedsQuota(const absl::Status& status);

// True if `status`, that of a call about objects of `kind`, says that the server has none of this
// kind, and not that an object does not exist, which has the same code. A server may say the same
// of a pod's log: if the pod's node does not know it.
bool IsOfUnknownKind(const absl::Status& status, const Kind& kind);

}  // namespace lockstep::kube
