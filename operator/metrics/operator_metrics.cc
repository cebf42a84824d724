#include "operator/metrics/operator_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <ranges>
#include <set>
#include <utility>

#include "api/v1/conditions.h"
#include "operator/kube/denial.h"
#include "operator/kube/stream_end.h"
#include "operator/metrics/job_transition.h"
#include "operator/metrics/recoveries.h"
#include "operator/metrics/scraped.h"

namespace lockstep::metrics {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

// Reasons are the operator's constants, but others may write a status; it must not fill the memory.
constexpr std::size_t kMaxReasons = 32;

const Histogram::BucketBoundaries kRequestBuckets{0.002, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                  0.25,  0.5,   1,    2.5,   10,   30};
const Histogram::BucketBoundaries kWorkBuckets{0.001, 0.005, 0.01, 0.025, 0.05, 0.1,
                                               0.25,  0.5,   1,    2.5,   10,   60};
const Histogram::BucketBoundaries kJobBuckets{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600};

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Family<Counter>& CounterFamily(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Histogram& OneHistogram(Registry& registry, const char* name, const char* help,
                        const Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

// Why a watch has to be restarted.
const char* RestartReason(const absl::Status& end) {
  if (kube::IsSilent(end)) return "IdleTimeout";
  switch (end.code()) {
    case absl::StatusCode::kOk:
      return "Closed";  // usually the server's time limit
    case absl::StatusCode::kOutOfRange:
      return "Gone";
    default:
      return "Error";
  }
}

}  // namespace

struct OperatorMetrics::Recorded {
  Registry registry;
  Family<Counter>& requests =
      CounterFamily(registry, "lockstep_operator_kube_client_requests_total",
                    "Calls to the API server, by verb, resource and how they ended.");
  Family<Histogram>& request_durations =
      prometheus::BuildHistogram()
          .Name("lockstep_operator_kube_client_request_duration_seconds")
          .Help("How long calls to the API server took, retries included; watches left out.")
          .Register(registry);
  Family<Counter>& watch_restarts =
      CounterFamily(registry, "lockstep_operator_watch_restarts_total",
                    "Watches that ended, by resource and reason.");
  Family<Gauge>& watch_last_event =
      prometheus::BuildGauge()
          .Name("lockstep_operator_watch_last_event_timestamp_seconds")
          .Help(
              "When a watch last brought an event, bookmarks included, ended in order or was "
              "denied, "
              "or else when the first one began; of several namespaces the watch that has been "
              "quiet longest.")
          .Register(registry);
  Histogram& queue_durations =
      OneHistogram(registry, "lockstep_operator_workqueue_queue_duration_seconds",
                   "How long jobs that were due waited for a worker.", kWorkBuckets);
  Histogram& reconcile_durations =
      OneHistogram(registry, "lockstep_operator_reconcile_duration_seconds",
                   "How long one look at one job took, API calls included.", kWorkBuckets);
  Counter& created = CounterFamily(registry, "lockstep_operator_jobs_created_total",
                                   "Jobs seen for the first time.")
                         .Add({});
  Counter& succeeded =
      CounterFamily(registry, "lockstep_operator_jobs_succeeded_total", "Jobs that succeeded.")
          .Add({});
  Family<Counter>& failed = CounterFamily(registry, "lockstep_operator_jobs_failed_total",
                                          "Jobs that failed, by the condition's reason.");
  Family<Counter>& restarts = CounterFamily(
      registry, "lockstep_operator_job_restarts_total",
      "Restarts of jobs, by cause: of the application, a disruption, or of the Evaluator.");
  Histogram& to_running =
      OneHistogram(registry, "lockstep_operator_job_time_to_running_seconds",
                   "From a job's start to the first time that all replicas ran.", kJobBuckets);
  Histogram& to_recover =
      OneHistogram(registry, "lockstep_operator_job_recovery_duration_seconds",
                   "From the loss of replicas to as many being ready again.", kJobBuckets);
  Gauge& build_info;
  Recoveries recoveries{kMaxJobSeries};
  std::mutex mutex;
  std::set<std::string> reasons;  // guarded by mutex
  // When each namespace's watch of a resource last gave a sign of life; guarded by mutex.
  std::map<std::string, std::map<std::string, double>> last_events;

  explicit Recorded(const std::string& version)
      : build_info(prometheus::BuildGauge()
                       .Name("lockstep_operator_build_info")
                       .Help("Always 1; which version this is.")
                       .Register(registry)
                       .Add({{"version", version}})) {
    build_info.Set(1);
    // Start at 0: rate() and increase() miss the first increment of a counter that starts at 1.
    for (const char* cause : {"application", "disruption", "evaluator"})
      restarts.Add({{"cause", cause}});
    for (const auto& [reason, name] : api::kFailureReasons) {
      failed.Add({{"reason", BoundedReason(std::string(name))}});
    }
  }

  // The first watch of a namespace counts from its start: one that never brings anything is seen.
  void NoteStart(const std::string& resource, const std::string& namespace_name, double now) {
    const std::lock_guard lock(mutex);
    if (!last_events[resource].contains(namespace_name)) {
      RecordLocked(resource, namespace_name, now);
    }
  }

  void NoteSign(const std::string& resource, const std::string& namespace_name, double now) {
    const std::lock_guard lock(mutex);
    RecordLocked(resource, namespace_name, now);
  }

  // A denial is no silence: the server hears us. Lists that nobody goes on to watch do not count.
  void NoteDenial(const std::string& resource, const std::string& namespace_name, double now) {
    const std::lock_guard lock(mutex);
    if (last_events[resource].contains(namespace_name)) RecordLocked(resource, namespace_name, now);
  }

  void RecordLocked(const std::string& resource, const std::string& namespace_name, double now) {
    auto& of_namespaces = last_events[resource];
    if (of_namespaces.empty()) {  // start the counters of its ends at 0
      for (const char* reason : {"Closed", "Gone", "IdleTimeout", "Error"}) {
        watch_restarts.Add({{"resource", resource}, {"reason", reason}});
      }
    }
    of_namespaces[namespace_name] = now;
    watch_last_event.Add({{"resource", resource}})
        .Set(std::ranges::min(std::views::values(of_namespaces)));
  }

  std::string BoundedReason(const std::string& reason) {
    const std::lock_guard lock(mutex);
    if (reasons.contains(reason)) return reason;
    if (reasons.size() >= kMaxReasons) return "Other";
    reasons.insert(reason);
    return reason;
  }
};

OperatorMetrics::OperatorMetrics(const Clock& clock, const std::string& version)
    : clock_(clock), began_(clock.Now()), recorded_(std::make_unique<Recorded>(version)) {}

OperatorMetrics::~OperatorMetrics() = default;

void OperatorMetrics::OnJobChange(const api::TrainingJob* before, const api::TrainingJob& after) {
  const JobTransition transition = Compare(before, after);
  Recorded& recorded = *recorded_;
  if (transition.created) recorded.created.Increment();
  if (transition.succeeded) recorded.succeeded.Increment();
  if (transition.failed) {
    recorded.failed.Add({{"reason", recorded.BoundedReason(transition.failure_reason)}})
        .Increment();
  }
  recorded.restarts.Add({{"cause", "application"}}).Increment(transition.application_restarts);
  recorded.restarts.Add({{"cause", "disruption"}}).Increment(transition.disruption_restarts);
  recorded.restarts.Add({{"cause", "evaluator"}}).Increment(transition.evaluator_restarts);
  if (transition.seconds_to_running) recorded.to_running.Observe(*transition.seconds_to_running);
  if (transition.seconds_to_recover) recorded.to_recover.Observe(*transition.seconds_to_recover);
  if (before == nullptr) return;
  if (const auto seconds = recorded.recoveries.UpdateRecovery(*before, after, clock_.Now())) {
    recorded.to_recover.Observe(*seconds);
  }
}

void OperatorMetrics::OnCall(kube::Verb verb, const kube::Kind& kind,
                             const std::string& namespace_name, const absl::Status& result,
                             Duration took) {
  const char* verb_name = kube::VerbName(verb);
  recorded_->requests
      .Add({{"verb", verb_name},
            {"resource", kind.plural},
            {"code", absl::StatusCodeToString(result.code())}})
      .Increment();
  const bool reads = verb == kube::Verb::kWatch || verb == kube::Verb::kList;
  if (reads && kube::IsDenial(result)) recorded_->NoteDenial(kind.plural, namespace_name, Now());
  if (verb != kube::Verb::kWatch) {
    recorded_->request_durations.Add({{"verb", verb_name}}, kRequestBuckets).Observe(Seconds(took));
  } else if (!absl::IsCancelled(result)) {
    recorded_->watch_restarts.Add({{"resource", kind.plural}, {"reason", RestartReason(result)}})
        .Increment();
    // If no object changes, a server may send nothing but the end of the watch.
    if (result.ok()) recorded_->NoteSign(kind.plural, namespace_name, Now());
  }
}

void OperatorMetrics::OnWatchStart(const kube::Kind& kind, const std::string& namespace_name) {
  recorded_->NoteStart(kind.plural, namespace_name, Now());
}

void OperatorMetrics::OnWatchEvent(const kube::Kind& kind, const std::string& namespace_name) {
  recorded_->NoteSign(kind.plural, namespace_name, Now());
}

double OperatorMetrics::Now() const {
  return Seconds(clock_.Now().time_since_epoch());
}

void OperatorMetrics::OnTaken(Duration waited) {
  recorded_->queue_durations.Observe(Seconds(waited));
}

void OperatorMetrics::OnDone(Duration worked) {
  recorded_->reconcile_durations.Observe(Seconds(worked));
}

std::string OperatorMetrics::Text(const Snapshot& snapshot) const {
  std::vector<prometheus::MetricFamily> families = recorded_->registry.Collect();
  std::ranges::move(ScrapedFamilies(snapshot), std::back_inserter(families));
  std::ranges::move(ProcessFamilies(began_), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace lockstep::metrics
