// Saves checkpoints while training goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "trainer/checkpoint/store.h"
#include "trainer/core/duration_histogram.h"

namespace lockstep::train {

// One save is under way at most, and none is skipped: a checkpoint that was asked for is written,
// whatever the disk's speed. Used by one thread; the store belongs to this while it lives.
class AsyncSaver {
 public:
  explicit AsyncSaver(CheckpointStore& store);
  // Waits for the save under way.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  // Returns at once, unless the save before is unfinished: then when that is done.
  void Save(Snapshot snapshot);
  // Until nothing is under way. Returns the outcome of the latest save; Ok before the first.
  absl::Status Wait();

  struct Outcome {
    absl::Status status;                // of the latest finished save
    std::int64_t last_saved_step = -1;  // of the latest good one; -1: none yet
    std::string last_saved_folder;
    std::int64_t failures = 0;
    DurationHistogram durations;        // of the good ones
    std::int64_t last_saved_bytes = 0;  // tensors of the latest good one
  };
  // Never blocks for a save.
  Outcome outcome() const;

 private:
  void Run();

  CheckpointStore& store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Snapshot> pending_;  // until its save is done
  Outcome outcome_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::train
