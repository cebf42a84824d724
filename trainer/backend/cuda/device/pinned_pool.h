// Page-locked memory of the host, which a GPU copies from and to by itself while the host goes on.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "trainer/backend/cuda/device/driver_api.h"

namespace lockstep::train::cuda {

// Blocks are used again, so that a step that is like the one before allocates nothing. Thread-safe.
class PinnedPool {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    EventHandle copied = nullptr;  // made by GiveAfter
  };

  // Requires: `driver` outlives the pool.
  explicit PinnedPool(const DriverApi& driver) : driver_(driver) {}
  // Requires: a context is current, and the work that uses blocks is done.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Sets `block` to one of at least `bytes`. Returns a CUresult: kErrorOutOfMemory if the driver
  // has no more memory to lock, or that of a device that has failed. Requires: a context is current
  // in the calling thread.
  int Take(std::size_t bytes, Block& block);
  // Never calls the driver, so that a function that a stream calls may call it.
  void Give(const Block& block);
  // Gives the block back once the work that is queued on `stream` so far is done. An event tells
  // when: the stream would wait for a call to the host. Returns a CUresult; after an error the
  // block is not given back. Requires: a context is current in the calling thread.
  int GiveAfter(Block block, StreamHandle stream);

 private:
  // A block of that size that was given back, whether or not what GiveAfter awaits is done.
  std::optional<Block> TakeGiven(std::size_t size);

  const DriverApi& driver_;
  std::mutex mutex_;
  // Guarded by mutex_. The first two have what the pool has made, also what is never given back
  // because the device has failed.
  std::vector<void*> memory_;
  std::vector<EventHandle> events_;
  std::vector<Block> given_;
};

}  // namespace lockstep::train::cuda
