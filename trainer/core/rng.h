// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). The same (key, counter) gives the same numbers on every backend, so results
// do not depend on threads or on the number of ranks.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::train {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// Returns four uniform 32-bit words for a 128-bit counter under a 64-bit key.
PhiloxBlock Philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high);

// Maps a word to [0, 1) with 24 bits of precision.
inline float UniformFloat(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

// Mixes a seed and a stream (SplitMix64) into a key, so that streams are independent.
std::uint64_t DeriveKey(std::uint64_t seed, std::uint64_t stream);

}  // namespace lockstep::train
