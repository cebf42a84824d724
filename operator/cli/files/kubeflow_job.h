// Converts Kubeflow's TFJob, PyTorchJob and JAXJob (kubeflow.org/v1) to TrainingJobs. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

struct ConvertedJob {
  nlohmann::ordered_json object;   // a TrainingJob, with its fields in reading order
  std::vector<std::string> notes;  // one per field without an equivalent, and per changed behaviour
};

bool IsKubeflowJob(const kube::Object& object);

// A job of a kind or version of Kubeflow that is not converted: an MPIJob, or a TrainJob.
bool IsOtherKubeflowJob(const kube::Object& object);

// Requires: IsKubeflowJob(object). InvalidArgument names what is wrong with the input, or with the
// TrainingJob that would result.
absl::StatusOr<ConvertedJob> ConvertKubeflowJob(const kube::Object& object);

}  // namespace lockstep::cli
