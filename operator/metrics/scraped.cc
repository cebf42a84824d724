#include "operator/metrics/scraped.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

namespace lockstep::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  // Starts a family; Add appends to it.
  Families& Begin(MetricType type, const char* name, const char* help) {
    families_.push_back({name, help, type, {}});
    return *this;
  }
  Families& Add(double value, Labels labels = {}) {
    ClientMetric sample;
    sample.label = std::move(labels);
    const bool counter = families_.back().type == MetricType::Counter;
    (counter ? sample.counter.value : sample.gauge.value) = value;
    families_.back().metric.push_back(std::move(sample));
    return *this;
  }
  template <typename Number>
  Families& Gauge(const char* name, const char* help, Number value) {
    return Begin(MetricType::Gauge, name, help).Add(static_cast<double>(value));
  }
  template <typename Number>
  Families& Counter(const char* name, const char* help, Number value) {
    return Begin(MetricType::Counter, name, help).Add(static_cast<double>(value));
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

bool IsFinished(const std::string& state) {
  return state == "Succeeded" || state == "Failed";
}

const std::string& StateOf(const Snapshot::Job& job) {
  static const std::string kPending = "Pending";  // no status yet, and so no pod
  return job.state.empty() ? kPending : job.state;
}

// From the status and the pods, so that the count goes on if the operator is replaced. Of a job
// that is finished nothing starts again. A series begins with all that there was: its first value
// is no increase.
void AddRestarts(const std::vector<const Snapshot::Job*>& unfinished, Families& families) {
  families.Begin(MetricType::Counter, "lockstep_operator_job_status_restarts_total",
                 "Restarts of each unfinished job, by cause.");
  for (const Snapshot::Job* job : unfinished | std::views::take(kMaxJobSeries)) {
    if (!job->restarts) continue;
    for (const auto& [cause, count] : {std::pair("application", job->restarts->application),
                                       std::pair("disruption", job->restarts->disruption),
                                       std::pair("evaluator", job->restarts->evaluator)}) {
      families.Add(
          count,
          {{"namespace", job->namespace_name}, {"trainingjob", job->name}, {"cause", cause}});
    }
  }
}

// Adds a gauge of those jobs for which `value_of` has a value; of too many, of the first.
void AddSome(const std::vector<const Snapshot::Job*>& jobs, const char* name, const char* help,
             const std::function<std::optional<double>(const Snapshot::Job&)>& value_of,
             Families& families) {
  families.Begin(MetricType::Gauge, name, help);
  std::size_t left = kMaxJobSeries;
  for (const Snapshot::Job* job : jobs) {
    const std::optional<double> value = value_of(*job);
    if (!value || left == 0) continue;
    --left;
    families.Add(*value, {{"namespace", job->namespace_name}, {"trainingjob", job->name}});
  }
}

std::optional<double> SecondsOf(const std::optional<Time>& time) {
  if (!time) return std::nullopt;
  return std::chrono::duration<double>(time->time_since_epoch()).count();
}

std::optional<double> UnlessZero(std::int64_t count) {
  return count == 0 ? std::nullopt : std::optional(static_cast<double>(count));
}

// What some jobs have: the unfinished ones first.
void AddFaults(const std::vector<const Snapshot::Job*>& unfinished,
               const std::vector<const Snapshot::Job*>& finished, Families& families) {
  AddSome(
      unfinished, "lockstep_operator_job_lacks_replicas_timestamp_seconds",
      "Since when a job that has run lacks replicas that it requires.",
      [](const Snapshot::Job& job) { return SecondsOf(job.short_since); }, families);
  AddSome(
      finished, "lockstep_operator_job_diverged_timestamp_seconds",
      "When a job of the bundled trainer failed because its numbers were no longer finite.",
      [](const Snapshot::Job& job) { return SecondsOf(job.diverged); }, families);
  std::vector<const Snapshot::Job*> all = unfinished;
  all.insert(all.end(), finished.begin(), finished.end());
  AddSome(
      all, "lockstep_operator_job_diverged_variants",
      "Variants of a job that have ended because their numbers were no longer finite; only of jobs "
      "that have some.",
      [](const Snapshot::Job& job) { return UnlessZero(job.diverged_variants); }, families);
  AddSome(
      all, "lockstep_operator_job_samples_lost",
      "Samples that a job's epochs have left out; only of jobs that have some, which is a bug.",
      [](const Snapshot::Job& job) { return UnlessZero(job.samples_lost); }, families);
  AddSome(
      all, "lockstep_operator_job_samples_duplicated",
      "Samples that a job's epochs have used again; only of jobs that have some, which is a bug.",
      [](const Snapshot::Job& job) { return UnlessZero(job.samples_duplicated); }, families);
}

// True if the job's trainers must be there to be scraped.
bool IsTraining(const Snapshot::Job& job) {
  return job.has_training && job.state == "Running" && !job.short_since;
}

void AddJobs(const std::vector<Snapshot::Job>& jobs, Families& families) {
  std::map<std::string, int> by_state;
  std::vector<const Snapshot::Job*> unfinished, finished;
  for (const Snapshot::Job& job : jobs) {
    ++by_state[StateOf(job)];
    (IsFinished(job.state) ? finished : unfinished).push_back(&job);
  }
  families.Begin(MetricType::Gauge, "lockstep_operator_jobs", "Jobs that there are, by state.");
  for (const auto& [state, count] : by_state) families.Add(count, {{"state", state}});

  families.Gauge("lockstep_operator_jobs_training",
                 "Running jobs of the bundled trainer that have the replicas that they require.",
                 std::ranges::count_if(jobs, IsTraining));

  families.Begin(MetricType::Gauge, "lockstep_operator_job_status",
                 "Always 1; the state of each job, unfinished ones first if there are too many.");
  std::size_t left = kMaxJobSeries;
  for (const auto* list : {&unfinished, &finished}) {
    for (const Snapshot::Job* job : *list) {
      if (left == 0) break;
      --left;
      families.Add(1, {{"namespace", job->namespace_name},
                       {"trainingjob", job->name},
                       {"state", StateOf(*job)}});
    }
  }
  AddRestarts(unfinished, families);
  AddFaults(unfinished, finished, families);
  families.Gauge("lockstep_operator_job_series_left_out",
                 "Jobs that have no series of their own because there are too many.",
                 jobs.size() - (kMaxJobSeries - left));
}

}  // namespace

std::vector<MetricFamily> ScrapedFamilies(const Snapshot& snapshot) {
  Families families;
  families.Gauge("lockstep_operator_leader", "1 if this process leads.", snapshot.leader ? 1 : 0)
      .Gauge("lockstep_operator_workqueue_depth", "Jobs that are due and wait for a worker.",
             snapshot.queue.ready)
      .Gauge("lockstep_operator_workqueue_delayed",
             "Jobs that are to be looked at at a later time: back-offs, deadlines.",
             snapshot.queue.delayed)
      .Counter("lockstep_operator_workqueue_adds_total", "Jobs that became due.",
               snapshot.queue.adds)
      .Counter("lockstep_operator_workqueue_retries_total",
               "Jobs put off because a look at them failed.", snapshot.queue.retries)
      .Gauge("lockstep_operator_workqueue_longest_running_seconds",
             "How long the longest look under way has taken so far.",
             std::chrono::duration<double>(snapshot.queue.longest_running).count())
      .Counter("lockstep_operator_stale_read_deferrals_total",
               "Looks put off because the caches had not seen our own writes yet.",
               snapshot.stale_reads);
  families
      .Begin(MetricType::Counter, "lockstep_operator_reconcile_total",
             "Looks at jobs, by how they ended.")
      .Add(static_cast<double>(snapshot.successes), {{"result", "success"}})
      .Add(static_cast<double>(snapshot.failures), {{"result", "error"}});
  families
      .Begin(MetricType::Counter, "lockstep_operator_job_resizes_total",
             "Changes of the number of workers that groups have followed, by direction.")
      .Add(static_cast<double>(snapshot.grown), {{"direction", "up"}})
      .Add(static_cast<double>(snapshot.shrunk), {{"direction", "down"}});
  families.Begin(MetricType::Gauge, "lockstep_operator_cache_synced",
                 "1 once the cache of a resource has been filled.");
  for (const auto& cache : snapshot.caches) {
    families.Add(cache.synced ? 1 : 0, {{"resource", cache.resource}});
  }
  families.Begin(MetricType::Gauge, "lockstep_operator_cache_objects", "Objects in a cache.");
  for (const auto& cache : snapshot.caches) {
    families.Add(static_cast<double>(cache.objects), {{"resource", cache.resource}});
  }
  AddJobs(snapshot.jobs, families);
  return families.Take();
}

}  // namespace lockstep::metrics
