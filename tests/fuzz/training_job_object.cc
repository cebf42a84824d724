// A TrainingJob as an API server has it, well-formed or not: a cache can keep it, what is kept can
// be written, and of a well-formed one nothing is lost.
#include "operator/controller/observe_job.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;
using lockstep::kube::Object;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Object object = Object::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return 0;  // no client hands on anything else
  const auto observed = lockstep::controller::ObserveJob(object);
  Require(!observed.invalid || !observed.invalid->empty(), "an invalid job has a reason");
  const Object written = lockstep::api::TrainingJobToJson(observed.job);
  Require(!written.dump().empty(), "what is kept can be written");
  if (!lockstep::api::TrainingJobFromJson(object).ok()) return 0;
  const auto again = lockstep::api::TrainingJobFromJson(written);
  Require(again.ok() && *again == observed.job, "written and read back, it is the same");
  return 0;
}
