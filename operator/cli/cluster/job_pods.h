// The pods of a TrainingJob, as a cluster lists them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

// Returns the pods that the job controls, only those of `role` and `index` if these are set.
// Errors: those of List.
absl::StatusOr<std::vector<kube::Object>> ReadPods(kube::Client& client,
                                                   const api::TrainingJob& job,
                                                   std::optional<api::Role> role = {},
                                                   std::optional<int> index = {});

// Returns "worker-1", by the labels of a job's pod. A label that is no role or no number is "?":
// labels are an API server's word, and lines of logs begin with this.
std::string ReplicaName(const kube::Object& pod);

}  // namespace lockstep::cli
