// Sends a replica's metrics to its supervisor every second for the life of the process, even while
// the training thread is blocked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "trainer/core/latest_value.h"
#include "trainer/observe/metrics.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/supervisor/metrics_pipe.h"

namespace lockstep::train {

class MetricsSender {
 public:
  // Sends the first line immediately. `env` names the pipe if there is a supervisor. A rank below 0
  // takes no part in training: nothing is sent until Publish sets another rank.
  MetricsSender(const Clock& clock, const GetEnv& env, int rank, int world,
                Duration period = std::chrono::seconds(1));
  // Sends the last line.
  ~MetricsSender();
  MetricsSender(const MetricsSender&) = delete;
  MetricsSender& operator=(const MetricsSender&) = delete;

  // The metrics of the first line.
  const ReplicaMetrics& initial() const { return initial_; }
  // Only the training thread may switch phases.
  PhaseClock& phases() { return phases_; }
  // Sets the metrics of the next line. Phase seconds and goodput are computed when the line is
  // sent; `training_time` is goodput's numerator. Called by the training thread after every step:
  // takes no lock and does not allocate.
  void Publish(const ReplicaMetrics& metrics, Duration training_time);
  // Sends a line immediately. Thread-safe; never waits for the supervisor.
  void SendNow();

 private:
  struct Published {
    ReplicaMetrics metrics;
    Duration training_time{};
  };

  void Run();
  void Send();  // Requires mutex_.

  const ReplicaMetrics initial_;
  const Duration period_;
  PhaseClock phases_;
  LatestValue<Published> published_;
  std::mutex mutex_;  // serializes senders; guards stopping_
  std::condition_variable changed_;
  bool stopping_ = false;
  MetricsPipeWriter pipe_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
