// Places buffers with different lifetimes in one block of memory. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::train {

struct Lifetime {
  std::size_t bytes = 0;
  int first = 0, last = 0;  // times of first and last use, inclusive
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one per buffer, aligned to kArenaAlignment
  std::size_t bytes = 0;
};

// Buffers share bytes only if their lifetimes do not overlap. Places the largest first, each at the
// lowest offset that is free throughout its lifetime: not optimal, but close for chains of layers.
MemoryPlan PlanMemory(std::span<const Lifetime> buffers);

}  // namespace lockstep::train
