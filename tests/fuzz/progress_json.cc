// A trainer's last word: what is read is written and read back as the same.
#include "api/v1/progress_json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto progress = lockstep::api::ProgressFromMessage(lockstep::fuzz::Text(data, size));
  if (!progress) return 0;
  const auto again =
      lockstep::api::ProgressFromMessage(lockstep::api::ProgressToJson(*progress).dump());
  lockstep::fuzz::Require(again == progress, "written and read back, it is the same");
  return 0;
}
