#include "trainer/data/sample_hash.h"

#include "trainer/core/rng.h"

namespace lockstep::train {

std::uint64_t SampleHash(std::int64_t index) {
  return DeriveKey(0, static_cast<std::uint64_t>(index));
}

std::uint64_t ExpectedHashSum(std::int64_t n) {
  std::uint64_t sum = 0;
  for (std::int64_t index = 0; index < n; ++index) sum += SampleHash(index);
  return sum;
}

}  // namespace lockstep::train
