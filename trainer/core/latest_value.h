// Hands the newest of a thread's values to another thread, without either ever waiting.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace lockstep::train {

// One thread calls Set, one calls Get; others may take their places if something else orders them.
// A triple buffer: the writer's slot, the reader's, and the newest, which they swap theirs for. So
// a value is read whole, and of several set between two reads the reader sees the last.
template <typename T>
class LatestValue {
 public:
  explicit LatestValue(const T& value) : slots_{value, value, value} {}

  void Set(const T& value) {
    slots_[writers_] = value;
    writers_ = newest_.exchange(writers_ | kUnread, std::memory_order_acq_rel) & kSlot;
  }

  // Valid until the next Get.
  const T& Get() {
    if ((newest_.load(std::memory_order_relaxed) & kUnread) != 0) {
      readers_ = newest_.exchange(readers_, std::memory_order_acq_rel) & kSlot;
    }
    return slots_[readers_];
  }

 private:
  static constexpr std::size_t kSlot = 3, kUnread = 4;

  std::array<T, 3> slots_;
  std::size_t writers_ = 0, readers_ = 1;
  std::atomic<std::size_t> newest_{2};
};

}  // namespace lockstep::train
