// Kubeflow's TFJob and PyTorchJob (kubeflow.org/v1) as TrainingJobs. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

struct ConvertedJob {
  nlohmann::ordered_json object;   // a TrainingJob, fields in reading order
  std::vector<std::string> notes;  // one for each field without an equal, and for what changes
};

bool IsKubeflowJob(const kube::Object& object);

// InvalidArgument names what is wrong: with the input, or with the TrainingJob it would make.
// Expects IsKubeflowJob.
absl::StatusOr<ConvertedJob> ConvertKubeflowJob(const kube::Object& object);

}  // namespace lockstep::cli
