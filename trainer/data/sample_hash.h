// Proof by sums: which samples were counted, in one integer that ranks can add up.
#pragma once

#include <cstdint>

namespace lockstep::train {

// A hash of a sample's index (SplitMix64). The sum over an epoch is a function of n alone if and
// (but for a 2^-64 chance) only if every sample was counted exactly once.
std::uint64_t SampleHash(std::int64_t index);

// The sum of SampleHash over [0, n), modulo 2^64.
std::uint64_t ExpectedHashSum(std::int64_t n);

}  // namespace lockstep::train
