#include "trainer/backend/cuda/pinned_pool.h"

#include <algorithm>

namespace lockstep::train::cuda {

PinnedPool::~PinnedPool() {
  for (const Block& block : given_) {
    if (block.copied != nullptr) driver_.EventDestroy(block.copied);
    driver_.MemFreeHost(block.data);
  }
}

PinnedPool::Block PinnedPool::Take(std::size_t bytes) {
  constexpr std::size_t kGrain = 4096;
  const std::size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
  {
    const std::lock_guard lock(mutex_);
    // A step asks for the sizes of the step before. A larger block would be missed by whoever needs
    // it.
    const auto at = std::ranges::find_if(
        given_, [&](const Block& block) { return block.bytes == size && IsReady(block); });
    if (at != given_.end()) {
      const Block block = *at;
      given_.erase(at);
      return block;
    }
  }
  void* memory = nullptr;
  if (driver_.MemHostAlloc(&memory, size, 0) != kSuccess) return {};
  return {.data = static_cast<std::byte*>(memory), .bytes = size};
}

// An event that was never recorded, or whose record was awaited before, is done.
bool PinnedPool::IsReady(const Block& block) const {
  return block.copied == nullptr || driver_.EventQuery(block.copied) == kSuccess;
}

void PinnedPool::Give(const Block& block) {
  const std::lock_guard lock(mutex_);
  given_.push_back(block);
}

int PinnedPool::GiveAfter(Block block, StreamHandle stream) {
  if (block.copied == nullptr) {
    const int made = driver_.EventCreate(&block.copied, kEventDisableTiming);
    if (made != kSuccess) return made;
  }
  const int recorded = driver_.EventRecord(block.copied, stream);
  if (recorded == kSuccess) Give(block);
  return recorded;
}

}  // namespace lockstep::train::cuda
