// A pod's Prometheus metrics. The replica sends its numbers to the supervisor (see metrics_pipe.h),
// which serves those of all its replicas on one /metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/duration_histogram.h"

namespace lockstep::train {

// What one replica knows; counters are totals since its process started.
struct ReplicaMetrics {
  int rank = 0, world = 0;
  std::int64_t step = 0, total_steps = 0;
  double epoch = 0, loss = 0, accuracy = 0, learning_rate = 0, gradient_norm = 0;
  double examples_per_second = 0, goodput = 0, remaining_seconds = 0;
  std::int64_t steps_total = 0;
  std::int64_t evaluation_batches = 0;
  std::int64_t examples_total = 0;  // of this rank's own share
  DurationHistogram step_seconds;   // of the leading rank only: all ranks step together
  double input_seconds = 0, compute_seconds = 0, communication_seconds = 0, optimizer_seconds = 0,
         checkpoint_seconds = 0, evaluation_seconds = 0, rendezvous_seconds = 0, idle_seconds = 0;
  std::int64_t all_reduce_bytes = 0, generations = 0;
  std::int64_t samples_lost = 0, samples_duplicated = 0;  // since the job began, of all ranks
  std::int64_t checkpoint_interval = 0;  // steps; 0: nothing is saved before the end
  std::int64_t last_checkpoint_step = -1;
  double last_checkpoint_time = 0;         // Unix seconds
  std::int64_t checkpoint_bytes = 0;       // of the newest that this process saved
  std::int64_t checkpoint_failures = 0;    // saves that failed
  DurationHistogram checkpoint_durations;  // of the saves that did not
};

// Of a process that knows nothing of the run yet. What is not known is NaN, no value to Prometheus.
inline ReplicaMetrics MetricsAtStart(int rank, int world) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return {.rank = rank,
          .world = world,
          .loss = kUnknown,
          .accuracy = kUnknown,
          .learning_rate = kUnknown,
          .gradient_norm = kUnknown,
          .remaining_seconds = kUnknown};
}

// One line of JSON and back; Decode: InvalidArgument.
std::string EncodeMetrics(const ReplicaMetrics& metrics);
absl::StatusOr<ReplicaMetrics> DecodeMetrics(const std::string& line);

// Serves /metrics (Prometheus text) and /healthz. Thread-safe.
class MetricsServer {
 public:
  // As base/http_server.h has addresses: "127.0.0.1:0" picks a port, "[::]:8080" serves IPv4
  // too. Unavailable names the address if it is taken.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address);
  virtual ~MetricsServer() = default;
  virtual int port() const = 0;
  virtual void Update(int local_rank, const ReplicaMetrics& metrics) = 0;
  virtual void CountReplicaRestart(int local_rank) = 0;
  // Of the pod that leads the rendezvous: how many callers it has refused. Asked at each scrape, on
  // a thread of the server's.
  virtual void ShowRefusals(std::function<std::int64_t()> refusals) = 0;
};

}  // namespace lockstep::train
