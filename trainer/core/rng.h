// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). The same (key, counter) gives the same numbers on every backend, so results
// do not depend on threads or on the number of ranks.
#pragma once

#include <array>
#include <cstdint>

#include "trainer/core/device_code.h"

namespace lockstep::train {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// Returns four uniform 32-bit words for a 128-bit counter under a 64-bit key.
LOCKSTEP_ALSO_ON_GPU inline PhiloxBlock Philox(std::uint64_t key, std::uint64_t counter_low,
                                               std::uint64_t counter_high) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::uint32_t key0 = static_cast<std::uint32_t>(key);
  std::uint32_t key1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxBlock x = {
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * x[0];
    const std::uint64_t product1 = kMultiplier1 * x[2];
    x = {static_cast<std::uint32_t>(product1 >> 32) ^ x[1] ^ key0,
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ x[3] ^ key1,
         static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

// Maps a word to [0, 1) with 24 bits of precision.
LOCKSTEP_ALSO_ON_GPU inline float UniformFloat(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

// Mixes a seed and a stream (SplitMix64) into a key, so that streams are independent.
LOCKSTEP_ALSO_ON_GPU inline std::uint64_t DeriveKey(std::uint64_t seed, std::uint64_t stream) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15 * (stream + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace lockstep::train
