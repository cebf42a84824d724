// A loader whose thread fills a few batches ahead, for data that takes time to read.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/data/loader.h"

namespace lockstep::train {

class PrefetchLoader final : public Loader {
 public:
  // `dataset` outlives this. options.prefetch >= 1.
  PrefetchLoader(const Dataset& dataset, const LoaderOptions& options);
  ~PrefetchLoader() override;

  void Seek(std::int64_t step) override;
  absl::StatusOr<const Batch*> Next() override;

 private:
  enum class SlotState { kFree, kFilling, kReady, kHeld };
  struct Slot {
    SlotState state = SlotState::kFree;
    std::uint64_t course = 0;  // of the Seek that it was filled for
    absl::Status status;
    Batch batch;
  };

  void Run();
  Slot* Find(SlotState state);
  Slot* FindReady(std::int64_t step);
  void Release(SlotState state);

  const Dataset& dataset_;
  const LoaderOptions options_;

  std::mutex mutex_;
  std::condition_variable slot_freed_, slot_ready_;
  std::vector<Slot> slots_;  // `prefetch` ahead and one held by the caller
  std::uint64_t course_ = 0;
  std::int64_t fill_step_ = 0;  // of the batch filled next
  std::int64_t next_step_ = 0;  // of the batch handed out next
  bool failed_ = false;         // nothing more is filled until a Seek
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::train
