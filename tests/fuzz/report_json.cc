// What a program of a user's posts: numbers that are read are such that a status can hold them.
#include "operator/progress/report_json.h"

#include <cmath>

#include "api/v1/progress_json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto report = lockstep::progress::ReadReport(lockstep::fuzz::Text(data, size));
  if (!report.ok()) return 0;
  const auto progress = lockstep::controller::Merged(*report, std::nullopt, lockstep::Time());
  lockstep::fuzz::Require(lockstep::api::IsInRange(progress), "a status can hold it");
  for (const auto& number : {progress.loss, progress.accuracy, progress.test_loss,
                             progress.test_accuracy, progress.estimated_remaining_seconds}) {
    lockstep::fuzz::Require(!number || std::isfinite(*number), "it is finite");
  }
  const auto again = lockstep::controller::Merged(*report, progress, lockstep::Time());
  lockstep::fuzz::Require(again == progress, "the same report says the same again");
  return 0;
}
