// Page-locked memory of the host, which a GPU copies from and to by itself while the host goes on.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "trainer/backend/cuda/driver_api.h"

namespace lockstep::train::cuda {

// Blocks are used again, so that a step that is like the one before allocates nothing. Thread-safe.
class PinnedPool {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  // Requires: `driver` outlives the pool.
  explicit PinnedPool(const DriverApi& driver) : driver_(driver) {}
  // Requires: a context is current, and no work uses a block.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Returns at least `bytes`, or no data if the driver has no more memory to lock. Requires: a
  // context is current in the calling thread.
  Block Take(std::size_t bytes);
  // Never calls the driver, so that a function that a stream calls may call it.
  void Give(const Block& block);

 private:
  const DriverApi& driver_;
  std::mutex mutex_;
  std::vector<Block> free_;  // guarded by mutex_
};

}  // namespace lockstep::train::cuda
