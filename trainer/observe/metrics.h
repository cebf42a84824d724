// A pod's Prometheus metrics. Replicas send theirs to the supervisor (see metrics_pipe.h), which
// serves them all on one /metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "trainer/core/duration_histogram.h"
#include "trainer/observe/evaluator_metrics.h"
#include "trainer/observe/server_metrics.h"

namespace lockstep::train {

// The metrics of one replica process. Counters are totals since the process started.
struct ReplicaMetrics {
  int rank = 0, world = 0;
  int stage = 0;  // of the model, with strategy.stages
  std::int64_t step = 0, total_steps = 0;
  double epoch = 0, loss = 0, accuracy = 0, learning_rate = 0, gradient_norm = 0;
  double test_loss = 0, test_accuracy = 0;  // of the last evaluation
  // Instead of accuracies with a loss of regression.
  double mean_absolute_error = 0, test_mean_absolute_error = 0;
  api::TestMetrics test_metrics;  // of the last evaluation
  double examples_per_second = 0, goodput = 0, remaining_seconds = 0;
  std::int64_t steps_total = 0;
  // The step from which the process goes on with the values that it has; -1: it has none yet. A
  // lower one than was reached before says that steps are repeated.
  std::int64_t first_step = -1;
  std::int64_t evaluation_batches = 0;
  std::int64_t examples_total = 0;  // of this rank's share
  DurationHistogram step_seconds;   // rank 0 only: all ranks step together
  double input_seconds = 0, compute_seconds = 0, communication_seconds = 0, optimizer_seconds = 0,
         checkpoint_seconds = 0, evaluation_seconds = 0, rendezvous_seconds = 0, idle_seconds = 0;
  std::int64_t all_reduce_bytes = 0, generations = 0;
  std::int64_t samples_lost = 0, samples_duplicated = 0;  // since the job began, over all ranks
  std::int64_t skipped_steps = 0;                         // since the job began
  int diverged = 0;                                       // 1: training has ended so
  std::int64_t checkpoint_interval = 0;                   // in steps; 0: only the end is saved
  std::int64_t last_checkpoint_step = -1;
  double last_checkpoint_time = 0;         // Unix seconds
  std::int64_t checkpoint_bytes = 0;       // of the newest that this process saved
  std::int64_t checkpoint_failures = 0;    // failed saves
  DurationHistogram checkpoint_durations;  // of successful saves
};

// The metrics of a process that knows nothing about the run yet. NaN means unknown.
inline ReplicaMetrics MetricsAtStart(int rank, int world) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return {.rank = rank,
          .world = world,
          .loss = kUnknown,
          .accuracy = kUnknown,
          .learning_rate = kUnknown,
          .gradient_norm = kUnknown,
          .test_loss = kUnknown,
          .test_accuracy = kUnknown,
          .mean_absolute_error = kUnknown,
          .test_mean_absolute_error = kUnknown,
          .remaining_seconds = kUnknown};
}

// Converts to and from one line of JSON. InvalidArgument: `line` is malformed or lacks a field.
std::string EncodeMetrics(const ReplicaMetrics& metrics);
absl::StatusOr<ReplicaMetrics> DecodeMetrics(const std::string& line);

// Serves /metrics (Prometheus text) and /healthz. Thread-safe.
class MetricsServer {
 public:
  // Starts to serve. `address` is as in base/http_server.h: "127.0.0.1:0" picks a port, "[::]:8080"
  // also serves IPv4. /metrics is made at most once in `fresh_for`, however often it is asked for.
  // Unavailable names the address if it is taken.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, Duration fresh_for = std::chrono::seconds(1));
  virtual ~MetricsServer() = default;
  virtual int port() const = 0;
  virtual void Update(int local_rank, const ReplicaMetrics& metrics) = 0;
  // Shows these series of a parameter server from now on.
  virtual void UpdateServer(const ServerMetrics& metrics) = 0;
  // The same for an Evaluator.
  virtual void UpdateEvaluator(const EvaluatorMetrics& metrics) = 0;
  virtual void CountReplicaRestart(int local_rank) = 0;
  // Adds the number of callers that the leading pod's rendezvous has refused. The server calls
  // `refusals` on its own threads, at each scrape.
  virtual void ShowRefusals(std::function<std::int64_t()> refusals) = 0;
};

}  // namespace lockstep::train
