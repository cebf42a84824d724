#include "trainer/backend/cuda/device/pinned_pool.h"

#include <algorithm>

namespace lockstep::train::cuda {

PinnedPool::~PinnedPool() {
  for (const EventHandle event : events_) driver_.EventDestroy(event);
  for (void* memory : memory_) driver_.MemFreeHost(memory);
}

// Calls the driver without holding the lock, so that Give never waits for the driver.
int PinnedPool::Take(std::size_t bytes, Block& block) {
  constexpr std::size_t kGrain = 4096;
  const std::size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
  std::vector<Block> busy;
  int result = kErrorNotReady;
  while (result == kErrorNotReady) {
    const std::optional<Block> given = TakeGiven(size);
    if (!given) break;
    result = given->copied == nullptr ? kSuccess : driver_.EventQuery(given->copied);
    if (result == kSuccess) {
      block = *given;
    } else {
      busy.push_back(*given);
    }
  }
  for (const Block& other : busy) Give(other);
  if (result != kErrorNotReady) return result;
  void* memory = nullptr;
  const int allocated = driver_.MemHostAlloc(&memory, size, 0);
  if (allocated != kSuccess) return allocated;
  block = {.data = static_cast<std::byte*>(memory), .bytes = size};
  const std::lock_guard lock(mutex_);
  memory_.push_back(memory);
  return kSuccess;
}

// Takes only a block of exactly this size: each step asks for the same sizes as the one before, so
// a larger block would then be missing where it is needed.
std::optional<PinnedPool::Block> PinnedPool::TakeGiven(std::size_t size) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(given_, size, &Block::bytes);
  if (at == given_.end()) return std::nullopt;
  const Block block = *at;
  given_.erase(at);
  return block;
}

void PinnedPool::Give(const Block& block) {
  const std::lock_guard lock(mutex_);
  given_.push_back(block);
}

int PinnedPool::GiveAfter(Block block, StreamHandle stream) {
  if (block.copied == nullptr) {
    const int made = driver_.EventCreate(&block.copied, kEventDisableTiming);
    if (made != kSuccess) return made;
    const std::lock_guard lock(mutex_);
    events_.push_back(block.copied);
  }
  const int recorded = driver_.EventRecord(block.copied, stream);
  if (recorded == kSuccess) Give(block);
  return recorded;
}

}  // namespace lockstep::train::cuda
