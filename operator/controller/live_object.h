// Reads from the API server what a cache keeps only in part.
#pragma once

#include "absl/status/statusor.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/client.h"

namespace lockstep::controller {

// Returns the whole object, for an update: one from the cache would drop what the cache does not
// keep. Returns Aborted if the object has changed since `seen`, else the errors of ReadWhole.
absl::StatusOr<kube::Object> ReadAsSeen(kube::Client& client, const kube::Kind& kind,
                                        const kube::Identity& seen);

}  // namespace lockstep::controller
