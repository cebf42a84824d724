// The operator's Prometheus metrics. docs/metrics.md lists them, and a test compares the two.
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

// The values that are read at scrape time. Series of single jobs come from `jobs` only, so that
// they end with the job.
struct Snapshot {
  struct Cache {
    std::string resource;  // "pods"
    bool synced = false;
    std::size_t objects = 0;
  };
  kube::WorkQueueStats queue;
  std::int64_t successes = 0, failures = 0, stale_reads = 0;  // of looks at jobs
  std::int64_t grown = 0, shrunk = 0;                         // groups that have followed
  bool leader = false;
  std::vector<Cache> caches;
  struct Job {
    std::string namespace_name, name;
    std::string state;             // the printer column's text; empty before the first status
    bool has_training = false;     // its pods, which are this operator's, run the bundled trainer
    std::optional<Time> diverged;  // see DivergedAt
    // By its status, and the kubelet's of pods that are there; nullopt before the first look.
    std::optional<api::RestartCounts> restarts = api::RestartCounts{};
    // Since when a job that has run lacks replicas that it requires.
    std::optional<Time> short_since = std::nullopt;
    std::int64_t diverged_variants = 0;                     // see DivergedVariants
    std::int64_t samples_lost = 0, samples_duplicated = 0;  // by the job's progress
  };
  std::vector<Job> jobs;
};

// At most this many jobs have their own series; unfinished jobs take precedence.
inline constexpr std::size_t kMaxJobSeries = 2000;

// Thread-safe. Label values come from small fixed sets, except in series of single jobs.
class OperatorMetrics final : public kube::ClientObserver, public kube::WorkQueueObserver {
 public:
  // The clock must outlive this object.
  OperatorMetrics(const Clock& clock, const std::string& version);
  ~OperatorMetrics() override;

  // Call for each change of a job that a watch reports; `before` is null for a job seen first.
  void OnJobChange(const api::TrainingJob* before, const api::TrainingJob& after);
  void OnCall(kube::Verb verb, const kube::Kind& kind, const std::string& namespace_name,
              const absl::Status& result, Duration took) override;
  void OnWatchStart(const kube::Kind& kind, const std::string& namespace_name) override;
  void OnWatchEvent(const kube::Kind& kind, const std::string& namespace_name) override;
  void OnTaken(Duration waited) override;
  void OnDone(Duration worked) override;

  // Returns the exposition format, text version 0.0.4.
  std::string Text(const Snapshot& snapshot) const;
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

 private:
  double Now() const;  // in seconds since the epoch

  struct Recorded;  // counters and histograms, which persist between scrapes
  const Clock& clock_;
  const Time began_;  // of the process, which makes this object first
  const std::unique_ptr<Recorded> recorded_;
};

}  // namespace lockstep::metrics
