#include "trainer/nn/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

bool Overlap(const Period& a, const Period& b) {
  return std::max(a.first, b.first) <= std::min(a.last, b.last);
}

bool LiveTogether(const Lifetime& a, const Lifetime& b) {
  return Overlap(a.used, b.used) || Overlap(a.used, b.used_again) ||
         Overlap(a.used_again, b.used) || Overlap(a.used_again, b.used_again);
}

struct Block {
  std::size_t begin = 0, end = 0;
};

// Requires: `taken` is sorted by begin.
std::size_t LowestFree(const std::vector<Block>& taken, std::size_t bytes) {
  std::size_t offset = 0;
  for (const Block& block : taken) {
    if (offset + bytes <= block.begin) break;
    offset = std::max(offset, block.end);
  }
  return offset;
}

}  // namespace

MemoryPlan PlanMemory(std::span<const Lifetime> buffers) {
  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  std::vector<std::size_t> placed;
  for (const std::size_t index : order) {
    std::vector<Block> taken;
    for (const std::size_t other : placed) {
      if (!LiveTogether(buffers[index], buffers[other])) continue;
      taken.push_back({plan.offsets[other], plan.offsets[other] + Aligned(buffers[other].bytes)});
    }
    std::sort(taken.begin(), taken.end(),
              [](const Block& a, const Block& b) { return a.begin < b.begin; });
    const std::size_t bytes = Aligned(buffers[index].bytes);
    plan.offsets[index] = LowestFree(taken, bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[index] + bytes);
    placed.push_back(index);
  }
  return plan;
}

}  // namespace lockstep::train
