// The line that a replica sends to its supervisor.
#include "tests/fuzz/fuzz.h"
#include "trainer/observe/metrics.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto metrics = lockstep::train::DecodeMetrics(lockstep::fuzz::Text(data, size));
  if (!metrics.ok()) return 0;
  const std::string line = lockstep::train::EncodeMetrics(*metrics);
  const auto again = lockstep::train::DecodeMetrics(line);
  lockstep::fuzz::Require(again.ok(), "what was written can be read");
  lockstep::fuzz::Require(lockstep::train::EncodeMetrics(*again) == line, "it is the same");
  return 0;
}
