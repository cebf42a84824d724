// The API calls that Kueue's part in a job takes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/rules/plan.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/client.h"

namespace lockstep::controller {

// The value of the job's priority class; nothing if it names none.
absl::StatusOr<std::optional<std::int64_t>> ReadPriority(kube::Client& client,
                                                         const api::TrainingJob& job);

// Puts what the granted flavors say into the grants. `known` keeps those that were read. A failure
// is the call's, and names the flavor and the role.
absl::Status ReadFlavors(kube::Client& client, std::map<std::string, kube::Object>& known,
                         ObservedWorkload& workload);

// Writes spec.suspend and counts. Aborted if the job has moved on since `seen`.
absl::StatusOr<kube::Object> ChangeSuspend(kube::Client& client, const kube::Identity& seen,
                                           const SetSuspend& change);

}  // namespace lockstep::controller
