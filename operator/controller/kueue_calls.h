// The API calls that Kueue support needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/client.h"

namespace lockstep::controller {

// Returns the value of the job's priority class; nullopt if the job names none. InvalidArgument:
// the class has no integer as its value. Other errors are those of the call.
absl::StatusOr<std::optional<std::int64_t>> ReadPriority(kube::Client& client,
                                                         const api::TrainingJob& job);

// Adds the node labels and tolerations of the granted flavors to the grants. `known` caches the
// flavors that were read. On failure returns the call's error, naming the flavor and the role.
absl::Status ReadFlavors(kube::Client& client, std::map<std::string, kube::Object>& known,
                         ObservedWorkload& workload);

// Writes spec.suspend and the replica counts. Returns Aborted if the job has changed since `seen`.
absl::StatusOr<kube::Object> ChangeSuspend(kube::Client& client, const kube::Identity& seen,
                                           const SetSuspend& change);

}  // namespace lockstep::controller
