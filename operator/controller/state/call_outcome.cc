#include "operator/controller/state/call_outcome.h"

namespace lockstep::controller {

bool MayHaveHappened(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
}

absl::Status IgnoreGone(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status IgnoreMoved(const absl::Status& status) {
  return absl::IsAborted(status) ? absl::OkStatus() : IgnoreGone(status);
}

}  // namespace lockstep::controller
