// Quantities: what is written reads back as no less, and as hardly more.
#include "api/v1/quantity.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = lockstep::api::ParseQuantity(lockstep::fuzz::Text(data, size));
  if (!value.ok() || *value < 0 || *value > 1e12) return 0;
  const auto again = lockstep::api::ParseQuantity(lockstep::api::FormatQuantity(*value));
  Require(again.ok(), "what was written can be read");
  const double blur = 1e-5 + *value * 1e-15;  // of sums, and of numbers this large
  Require(*again >= *value - blur && *again <= *value + 0.001 + blur, "it is the same, rounded up");
  return 0;
}
