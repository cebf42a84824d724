// The part of an optimizer's memory that one call of a kernel updates.
#pragma once

#include <array>
#include <cstdint>

#include "trainer/backend/backend.h"

namespace lockstep::train::cpu {

// Consecutive values, and what belongs to them.
struct UpdateRange {
  const float* gradients = nullptr;
  float* values = nullptr;
  std::array<float*, 2> slots = {};  // null: the optimizer has no such slot
  std::int64_t size = 0;
};

inline UpdateRange RangeOf(const OptimizerMemory& memory, std::int64_t begin, std::int64_t end) {
  UpdateRange range{
      .gradients = memory.gradients + begin, .values = memory.values + begin, .size = end - begin};
  for (std::size_t i = 0; i < memory.slots.size(); ++i) {
    range.slots.at(i) = memory.slots[i] + begin;
  }
  return range;
}

}  // namespace lockstep::train::cpu
