// One block of memory, planned first and allocated once: nothing is allocated in a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::train {

inline constexpr std::size_t kArenaAlignment = 64;

// Not thread-safe. Reserve() any number of times, Allocate() once, then At().
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns the offset of `bytes` bytes, aligned to kArenaAlignment.
  std::size_t Reserve(std::size_t bytes);
  // Zeroed memory, huge pages where the kernel grants them.
  void Allocate();
  std::byte* At(std::size_t offset) const;
  template <typename T>
  T* At(std::size_t offset) const {
    return reinterpret_cast<T*>(At(offset));
  }
  std::size_t bytes() const { return size_; }

 private:
  std::size_t size_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace lockstep::train
