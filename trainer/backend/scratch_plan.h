// Divides an op's scratch memory.
#pragma once

#include <cstddef>

#include "trainer/core/arena.h"

namespace lockstep::train {

// Plans a block of memory: its offsets are aligned to kArenaAlignment.
class ScratchPlan {
 public:
  std::size_t Reserve(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += Aligned(bytes);
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::train
