// Sends a replica's numbers to its supervisor: every second from the beginning of the process to
// its end, whatever the training thread waits for.
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
  // Sends the first line at once. `env` names the pipe, if there is a supervisor. A rank below 0
  // takes no part in training, and nothing is sent until Publish brings another.
  MetricsSender(const Clock& clock, const GetEnv& env, int rank, int world,
                Duration period = std::chrono::seconds(1));
  // Sends the last line.
  ~MetricsSender();
  MetricsSender(const MetricsSender&) = delete;
  MetricsSender& operator=(const MetricsSender&) = delete;

  // What the first line has.
  const ReplicaMetrics& initial() const { return initial_; }
  // The training thread switches.
  PhaseClock& phases() { return phases_; }
  // What the next line has, but for the seconds of the phases and goodput, which are those of the
  // moment it is sent. `training_time`: of goodput. For the training thread, after every step: no
  // lock, no allocation.
  void Publish(const ReplicaMetrics& metrics, Duration training_time);
  // Sends a line at once. Thread-safe, never blocks for the supervisor.
  void SendNow();

 private:
  struct Published {
    ReplicaMetrics metrics;
    Duration training_time{};
  };

  void Run();
  void Send();  // with mutex_ held

  const ReplicaMetrics initial_;
  const Duration period_;
  PhaseClock phases_;
  LatestValue<Published> published_;
  std::mutex mutex_;  // of whoever sends
  std::condition_variable changed_;
  bool stopping_ = false;
  MetricsPipeWriter pipe_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::train
