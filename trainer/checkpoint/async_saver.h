// Saves checkpoints in the background while training continues.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "trainer/checkpoint/store.h"
#include "trainer/core/duration_histogram.h"

namespace lockstep::train {

// Runs one save at a time and skips none, however slow the disk is. Logs each that fails. Not
// thread-safe. Uses the store exclusively while it exists.
class AsyncSaver {
 public:
  explicit AsyncSaver(CheckpointStore& store);
  // Waits for the current save.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  // Starts a save. Returns at once, unless the previous save is still running; then waits for that.
  // `keeps`: if it fails, keeps the snapshot until the next save.
  void Save(Snapshot snapshot, bool keeps = false);
  // Waits until no save is running. Returns the latest save's status; OK before the first.
  absl::Status Wait();

  // Returns the snapshot of the latest finished save, if that has failed and keeps it; else null.
  // None of these waits for a save that is running.
  std::shared_ptr<const Snapshot> Unsaved() const;
  std::int64_t UnsavedStep() const;  // its step; -1: there is none
  void DropUnsaved();
  // Starts its save once more. Returns its step; -1: there is none.
  std::int64_t SaveAgain();

  struct Outcome {
    absl::Status status;                // of the latest finished save
    std::int64_t last_saved_step = -1;  // of the latest successful save; -1: none yet
    std::string last_saved_folder;
    std::int64_t saves = 0;  // that have succeeded
    std::int64_t failures = 0;
    DurationHistogram durations;        // of successful saves
    std::int64_t last_saved_bytes = 0;  // tensor bytes of the latest successful save
  };
  // Never waits for a save.
  Outcome outcome() const;

 private:
  void Run();
  void Save(std::shared_ptr<const Snapshot> snapshot, bool keeps);

  CheckpointStore& store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Snapshot> pending_;  // set until its save is done
  bool keeps_pending_ = false;
  std::shared_ptr<const Snapshot> unsaved_;
  Outcome outcome_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
