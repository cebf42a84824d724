#include "trainer/train/finite.h"

#include <bit>
#include <cstdint>

namespace lockstep::train {

bool AllFinite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinity or NaN
  std::uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  }
  return found == 0;
}

}  // namespace lockstep::train
