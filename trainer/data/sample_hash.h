// Identifies the set of counted samples by one integer that ranks can sum.
#pragma once

#include <cstdint>

namespace lockstep::train {

// Hashes a sample's index (SplitMix64). An epoch's sum equals ExpectedHashSum(n) if and (but for a
// chance of 2^-64) only if every sample was counted exactly once.
std::uint64_t SampleHash(std::int64_t index);

// Returns the sum of SampleHash over [0, n), modulo 2^64.
std::uint64_t ExpectedHashSum(std::int64_t n);

}  // namespace lockstep::train
