// What the operator tells Prometheus. docs/metrics.md lists it, and a test compares the two.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "base/clock.h"
#include "operator/kube/instrumented_client.h"
#include "operator/kube/runtime/work_queue.h"

namespace lockstep::metrics {

// What is looked up when Prometheus asks. Series of single jobs come from `jobs` alone, so that
// they end with the job.
struct Snapshot {
  struct Cache {
    std::string resource;  // "pods"
    bool synced = false;
    std::size_t objects = 0;
  };
  kube::WorkQueueStats queue;
  std::int64_t reconciles = 0, failed_reconciles = 0, stale_reads = 0;
  bool leader = false;
  std::vector<Cache> caches;
  struct Job {
    std::string namespace_name, name;
    std::string state;             // what the printer column says; empty before the first status
    std::optional<Time> diverged;  // DivergedAt
  };
  std::vector<Job> jobs;
};

// At most this many jobs have series of their own; those not yet finished come first.
inline constexpr std::size_t kMaxJobSeries = 2000;

// Thread-safe. Labels take values from small fixed sets, but for those of single jobs.
class OperatorMetrics final : public kube::ClientObserver, public kube::WorkQueueObserver {
 public:
  // The clock outlives it.
  OperatorMetrics(const Clock& clock, const std::string& version);
  ~OperatorMetrics() override;

  // Of each change of a job that a watch brings; `before` is null for one that was not known.
  void OnJobChange(const api::TrainingJob* before, const api::TrainingJob& after);
  void OnCall(kube::Verb verb, const kube::Kind& kind, const std::string& namespace_name,
              const absl::Status& result, Duration took) override;
  void OnWatchEvent(const kube::Kind& kind, const std::string& namespace_name) override;
  void OnTaken(Duration waited) override;
  void OnDone(Duration worked) override;

  // The exposition format, text version 0.0.4.
  std::string Text(const Snapshot& snapshot) const;
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Recorded;  // counters and histograms, which are kept between scrapes
  const Clock& clock_;
  const std::unique_ptr<Recorded> recorded_;
};

}  // namespace lockstep::metrics
