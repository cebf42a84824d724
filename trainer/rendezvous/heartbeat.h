// Reports to the leader at regular intervals that this process runs, its progress and its current
// activity.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "api/v1/activity.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "trainer/rendezvous/rendezvous_stream.h"

namespace lockstep::train {

// Thread-safe.
class Heartbeat {
 public:
  struct Target {
    std::shared_ptr<RendezvousStream> stream;  // null: not connected, nothing is sent
    std::uint64_t generation = 0;              // 0: not a member of one
  };

  // Sends to `current()`, which is called on the heartbeat's thread, from now until destruction.
  Heartbeat(const Clock& clock, Duration every, std::function<Target()> current);

  // See Rendezvous.
  void Report(const api::Progress& progress);
  void SetActivity(api::Activity activity) {
    step_part_ = api::StepPart::kUnknown;
    activity_ = activity;
  }
  void SetStepPart(api::StepPart part) { step_part_ = part; }
  // Both tell so at once: the leader decides by it what becomes of a group that ends.
  void SetKeepsWorkers(bool keeps) {
    if (keeps_workers_.exchange(keeps) != keeps) Send();
  }
  void SetIsSaved(bool is_saved) {
    if (is_saved_.exchange(is_saved) != is_saved) Send();
  }
  bool is_saved() const { return is_saved_; }
  // Tells the progress at once if no heartbeat has told it. Returns whether one is on its way now.
  bool TellProgress();

 private:
  void Run(const std::stop_token& stop);
  bool Send();  // false: not connected

  const Clock& clock_;
  const Duration every_;
  const std::function<Target()> current_;
  std::mutex sending_;  // so that none overtakes a newer one
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<proto::TrainerProgress> progress_;  // this and the next: guarded by mutex_
  bool has_new_progress_ = false;                   // that no heartbeat has told
  // Set at every step: no lock.
  std::atomic<api::Activity> activity_ = api::Activity::kUnknown;
  std::atomic<api::StepPart> step_part_ = api::StepPart::kUnknown;
  std::atomic<bool> keeps_workers_ = false, is_saved_ = false;
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
