// Places buffers with different lifetimes in one block of memory. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::train {

// Times, inclusive; none if last < first.
struct Period {
  int first = 0, last = -1;
};

// A buffer keeps its content throughout a period, but not from one period to the other.
struct Lifetime {
  std::size_t bytes = 0;
  Period used;
  Period used_again = {};
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one per buffer, aligned to kArenaAlignment
  std::size_t bytes = 0;
};

// Buffers share bytes only if none of their periods overlap. Places the largest first, each at the
// lowest offset that is free throughout its lifetime: not optimal, but close for chains of layers.
MemoryPlan PlanMemory(std::span<const Lifetime> buffers);

}  // namespace lockstep::train
