// Where buffers that are not all needed at once lie in one block. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::train {

struct Lifetime {
  std::size_t bytes = 0;
  int first = 0, last = 0;  // moments of first and last use, both included
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one per buffer, aligned to kArenaAlignment
  std::size_t bytes = 0;
};

// Two buffers share bytes only if their lifetimes are apart. Largest first, each at the lowest
// place that is free throughout its life: not optimal, but near it for chains of layers.
MemoryPlan PlanMemory(std::span<const Lifetime> buffers);

}  // namespace lockstep::train
