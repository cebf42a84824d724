// A loader whose thread reads a few batches ahead, for data that takes time to read. Other threads
// help it with the samples of a batch, see ReadingThreads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/data/gather.h"
#include "trainer/data/loader.h"

namespace lockstep::train {

class PrefetchLoader final : public Loader {
 public:
  // Requires: `dataset` outlives this, and options.prefetch >= 1.
  PrefetchLoader(const Dataset& dataset, const LoaderOptions& options);
  ~PrefetchLoader() override;
  // Those that are read ahead, and the one that the caller holds.
  static std::size_t Batches(const LoaderOptions& options) {
    return static_cast<std::size_t>(options.prefetch) + 1;
  }

  void Seek(std::int64_t step) override;
  absl::StatusOr<const Batch*> Next() override;

 private:
  enum class SlotState { kFree, kFilling, kReady, kHeld };
  struct Slot {
    SlotState state = SlotState::kFree;
    std::uint64_t course = 0;  // course_ when filling started
    absl::Status status;
    std::exception_ptr thrown;  // of Gather; null for none
    Batch batch;
  };

  void Run();
  Slot* Find(SlotState state);
  Slot* FindReady(std::int64_t step);
  void Release(SlotState state);

  const Dataset& dataset_;
  const LoaderOptions options_;
  EpochOrders orders_;  // of the thread

  std::mutex mutex_;
  std::condition_variable slot_freed_, slot_ready_;
  std::vector<Slot> slots_;     // `prefetch` batches ahead and one held by the caller
  std::uint64_t course_ = 0;    // number of calls of Seek
  std::int64_t fill_step_ = 0;  // the next step to fill
  std::int64_t next_step_ = 0;  // the next step to return
  bool failed_ = false;         // stops filling until a Seek
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
