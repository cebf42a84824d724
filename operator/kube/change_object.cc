#include "operator/kube/change_object.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep::kube {
namespace {

absl::Status CheckWhole(std::string_view name, const Object& part) {
  if (!part.is_string()) return absl::OkStatus();
  const bool is_list = name.ends_with("ownerReferences") || name.ends_with("finalizers");
  return absl::FailedPreconditionError(fmt::format("{}: found {}, expected {}", name,
                                                   part.get<std::string>(),
                                                   is_list ? "a list" : "an object"));
}

}  // namespace

absl::StatusOr<Object> ReadWhole(Client& client, const Kind& kind, const Key& key) {
  LOCKSTEP_ASSIGN_OR_RETURN(Object live, client.Get(kind, key));
  absl::Status whole;
  for (const char* part : {"spec", "status"}) {
    whole.Update(CheckWhole(part, Member(live, part)));
  }
  for (const char* part : {"labels", "annotations", "ownerReferences", "finalizers"}) {
    const Object& found = Member(Member(live, "metadata"), part);
    whole.Update(CheckWhole(fmt::format("metadata.{}", part), found));
  }
  if (whole.ok()) return live;
  return absl::FailedPreconditionError(
      fmt::format("{} {}: {}", kind.plural, key.name, std::string(whole.message())));
}

absl::Status ChangeObject(Client& client, const Kind& kind, const Key& key,
                          const std::function<void(Object&)>& change) {
  absl::Status written;
  for (int i = 0; i < kMostTries; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Object found, ReadWhole(client, kind, key));
    Object changed = found;
    change(changed);
    if (changed == found) return absl::OkStatus();
    written = client.Update(kind, changed).status();
    if (!absl::IsAborted(written)) break;
  }
  return written;
}

}  // namespace lockstep::kube
