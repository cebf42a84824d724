#include "operator/kube/server_errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace lockstep::kube {
namespace {

constexpr char kOverload[] = "lockstep/overloaded";

}  // namespace

absl::Status MarkOverloaded(absl::Status error) {
  error.SetPayload(kOverload, absl::Cord());  // does nothing if it is Ok
  return error;
}

bool IsOverloaded(const absl::Status& error) {
  return absl::IsDeadlineExceeded(error) || error.GetPayload(kOverload).has_value();
}

bool ExceedsQuota(const absl::Status& status) {
  return absl::IsPermissionDenied(status) &&
         status.message().find("exceeded quota: ") != absl::string_view::npos;
}

}  // namespace lockstep::kube
