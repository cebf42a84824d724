#include "trainer/backend/cuda/pinned_pool.h"

#include <algorithm>

namespace lockstep::train::cuda {

PinnedPool::~PinnedPool() {
  for (const Block& block : free_) driver_.MemFreeHost(block.data);
}

PinnedPool::Block PinnedPool::Take(std::size_t bytes) {
  constexpr std::size_t kGrain = 4096;
  const std::size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
  {
    const std::lock_guard lock(mutex_);
    // A step asks for the sizes of the step before. A larger block would be missed by whoever needs
    // it.
    const auto at = std::ranges::find(free_, size, &Block::bytes);
    if (at != free_.end()) {
      const Block block = *at;
      free_.erase(at);
      return block;
    }
  }
  void* memory = nullptr;
  if (driver_.MemHostAlloc(&memory, size, 0) != kSuccess) return {};
  return {.data = static_cast<std::byte*>(memory), .bytes = size};
}

void PinnedPool::Give(const Block& block) {
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
}

}  // namespace lockstep::train::cuda
