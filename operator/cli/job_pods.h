// The pods of a TrainingJob, as a cluster lists them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

// Returns the pods that the job controls. Errors: those of List.
absl::StatusOr<std::vector<kube::Object>> ReadPods(kube::Client& client,
                                                   const api::TrainingJob& job);

// Returns "worker-1", by the labels of a job's pod.
std::string ReplicaName(const kube::Object& pod);

}  // namespace lockstep::cli
