#include "operator/kube/server_errors.h"

#include <fmt/format.h>

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

bool IsOfUnknownKind(const absl::Status& status, const Kind& kind) {
  const auto says = [&status](absl::string_view text) {
    return status.message().find(text) != absl::string_view::npos;
  };
  const bool is_about_kind =
      says(fmt::format(" {} ", kind.plural)) || says(fmt::format(" {}: ", kind.plural));
  return absl::IsNotFound(status) && is_about_kind &&
         (says("404 page not found") || says("could not find the requested resource"));
}

}  // namespace lockstep::kube
