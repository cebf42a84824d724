// Passes a thread's newest value to another thread without locks or waiting.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace lockstep::train {

// One thread at a time may call Set and one may call Get; the caller must order different threads.
// A triple buffer: writer and reader each own a slot and swap it for the slot of the newest value,
// so values are read whole. Of several values set between two reads, the reader gets the last.
template <typename T>
class LatestValue {
 public:
  explicit LatestValue(const T& value) : slots_{value, value, value} {}

  void Set(const T& value) {
    slots_[writers_] = value;
    writers_ = newest_.exchange(writers_ | kUnread, std::memory_order_acq_rel) & kSlot;
  }

  // The result is valid until the next Get.
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
