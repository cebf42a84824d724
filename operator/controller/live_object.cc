#include "operator/controller/live_object.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep::controller {

namespace {

// A part that is too large to be read is a text, which an update would write in its place.
absl::Status CheckWhole(std::string_view name, const kube::Object& part) {
  if (!part.is_string()) return absl::OkStatus();
  const bool is_list = name.ends_with("ownerReferences") || name.ends_with("finalizers");
  return absl::FailedPreconditionError(fmt::format("{}: found {}, expected {}", name,
                                                   part.get<std::string>(),
                                                   is_list ? "a list" : "an object"));
}

}  // namespace

absl::StatusOr<kube::Object> ReadAsSeen(kube::Client& client, const kube::Kind& kind,
                                        const kube::Identity& seen) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Object live, client.Get(kind, seen.key));
  if (kube::ResourceVersion(live) != seen.resource_version) {
    return absl::AbortedError(
        fmt::format("{} {}: it has changed meanwhile", kind.plural, seen.key.name));
  }
  absl::Status whole;
  for (const char* part : {"spec", "status"}) {
    whole.Update(CheckWhole(part, kube::Member(live, part)));
  }
  for (const char* part : {"labels", "annotations", "ownerReferences", "finalizers"}) {
    const kube::Object& found = kube::Member(kube::Member(live, "metadata"), part);
    whole.Update(CheckWhole(fmt::format("metadata.{}", part), found));
  }
  if (whole.ok()) return live;
  return absl::FailedPreconditionError(
      fmt::format("{} {}: {}", kind.plural, seen.key.name, std::string(whole.message())));
}

}  // namespace lockstep::controller
