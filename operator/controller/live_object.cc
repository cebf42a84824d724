#include "operator/controller/live_object.h"

#include <fmt/format.h>

#include "base/status.h"
#include "operator/kube/change_object.h"

namespace lockstep::controller {

absl::StatusOr<kube::Object> ReadAsSeen(kube::Client& client, const kube::Kind& kind,
                                        const kube::Identity& seen) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Object live, kube::ReadWhole(client, kind, seen.key));
  if (kube::ResourceVersion(live) == seen.resource_version) return live;
  return absl::AbortedError(
      fmt::format("{} {}: it has changed meanwhile", kind.plural, seen.key.name));
}

}  // namespace lockstep::controller
