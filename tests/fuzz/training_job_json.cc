// A TrainingJob as JSON: what is read is written and read back as the same; a valid one renders.
#include "api/v1/defaults.h"
#include "api/v1/training_job.h"
#include "api/v1/validate.h"
#include "tests/fuzz/fuzz.h"

using lockstep::api::Json;
using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Json json = Json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return 0;
  const auto job = lockstep::api::TrainingJobFromJson(json);
  if (!job.ok()) {
    Require(!job.status().message().empty(), "a refusal says why");
    return 0;
  }
  const auto again = lockstep::api::TrainingJobFromJson(lockstep::api::TrainingJobToJson(*job));
  Require(again.ok() && *again == *job, "written and read back, it is the same");
  const auto full = lockstep::api::WithDefaults(*job);
  Require(lockstep::api::WithDefaults(full) == full, "defaults are filled in once");
  for (const auto& error : lockstep::api::Validate(full)) {
    Require(!error.message.empty(), "a fault has a message");
  }
  return 0;
}
