// One block of memory, planned first and allocated once, so that a step does not allocate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/core/memory_source.h"

namespace lockstep::train {

inline constexpr std::size_t kArenaAlignment = 64;

// Returns `bytes`, rounded up to a multiple of kArenaAlignment.
constexpr std::size_t Aligned(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Call Reserve() any number of times, Allocate() once, then At(). Not thread-safe.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Reserves `bytes` and returns their offset, aligned to kArenaAlignment.
  std::size_t Reserve(std::size_t bytes);
  // Allocates zeroed memory. Requires: `source` outlives the arena.
  void Allocate(MemorySource& source = HostMemory());
  std::byte* At(std::size_t offset) const;
  template <typename T>
  T* At(std::size_t offset) const {
    return reinterpret_cast<T*>(At(offset));
  }
  std::size_t bytes() const { return size_; }

 private:
  std::size_t size_ = 0;
  std::byte* memory_ = nullptr;
  MemorySource* source_ = nullptr;
};

}  // namespace lockstep::train
