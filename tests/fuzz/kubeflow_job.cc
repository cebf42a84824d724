// Kubeflow's jobs: what is converted is a TrainingJob that reads and validates.
#include "operator/cli/files/kubeflow_job.h"

#include "api/v1/training_job.h"
#include "tests/fuzz/fuzz.h"

using lockstep::api::Json;
using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Json json = Json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return 0;
  json["apiVersion"] = "kubeflow.org/v1";
  if (!lockstep::cli::IsKubeflowJob(json)) json["kind"] = size % 2 == 0 ? "TFJob" : "PyTorchJob";
  const auto converted = lockstep::cli::ConvertKubeflowJob(json);
  if (!converted.ok()) {
    Require(!converted.status().message().empty(), "a refusal says why");
    return 0;
  }
  const auto job = lockstep::api::TrainingJobFromJson(Json::parse(converted->object.dump()));
  Require(job.ok(), "what was made is a TrainingJob");
  return 0;
}
