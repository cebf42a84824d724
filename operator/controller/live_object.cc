#include "operator/controller/live_object.h"

#include <fmt/format.h>

#include "base/status.h"

namespace lockstep::controller {

absl::StatusOr<kube::Object> ReadAsSeen(kube::Client& client, const kube::Kind& kind,
                                        const kube::Identity& seen) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Object live, client.Get(kind, seen.key));
  if (kube::ResourceVersion(live) != seen.resource_version) {
    return absl::AbortedError(
        fmt::format("{} {}: it has changed meanwhile", kind.plural, seen.key.name));
  }
  for (const char* part : {"spec", "status"}) {
    const kube::Object& found = kube::Member(live, part);
    if (found.is_object() || found.is_null()) continue;
    return absl::FailedPreconditionError(
        fmt::format("{} {}: {}: found {}, expected an object", kind.plural, seen.key.name, part,
                    found.is_string() ? found.get<std::string>() : found.type_name()));
  }
  return live;
}

}  // namespace lockstep::controller
