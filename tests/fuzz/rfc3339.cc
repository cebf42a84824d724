// Times: what is written reads back as the same.
#include "base/rfc3339.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto time = lockstep::ParseRfc3339(lockstep::fuzz::Text(data, size));
  if (!time) return 0;
  const auto again = lockstep::ParseRfc3339(lockstep::FormatRfc3339(*time));
  lockstep::fuzz::Require(again == time, "written and read back, it is the same");
  return 0;
}
