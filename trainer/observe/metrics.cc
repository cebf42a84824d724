// The trainer's only file that includes prometheus-cpp.
#include "trainer/observe/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/enum_names.h"
#include "base/http_server.h"
#include "base/status.h"
#include "trainer/observe/replica_series.h"

namespace lockstep::train {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr auto kGauge = MetricType::Gauge;
constexpr auto kCounter = MetricType::Counter;

ClientMetric Sample(bool is_counter, const std::string& rank, const char* phase, double value) {
  ClientMetric sample;
  sample.label.push_back({"rank", rank});
  if (phase != nullptr) sample.label.push_back({"phase", phase});
  (is_counter ? sample.counter.value : sample.gauge.value) = value;
  return sample;
}

ClientMetric HistogramSample(const std::string& rank, const DurationHistogram& histogram) {
  ClientMetric sample;
  sample.label.push_back({"rank", rank});
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    count += static_cast<std::uint64_t>(histogram.counts[i]);
    const bool last = i == histogram.kBounds.size();
    sample.histogram.bucket.push_back(
        {count, last ? std::numeric_limits<double>::infinity() : histogram.kBounds[i]});
  }
  sample.histogram.sample_count = count;
  sample.histogram.sample_sum = histogram.sum;
  return sample;
}

ClientMetric ServerSample(const ServerMetrics& metrics, std::int64_t value) {
  ClientMetric sample;
  sample.label.push_back({"server", std::to_string(metrics.server)});
  sample.counter.value = static_cast<double>(value);
  return sample;
}

ClientMetric StalenessSample(const ServerMetrics& metrics) {
  ClientMetric sample;
  sample.label.push_back({"server", std::to_string(metrics.server)});
  const CountHistogram& histogram = metrics.staleness;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    count += static_cast<std::uint64_t>(histogram.counts[i]);
    const bool last = i == histogram.kBounds.size();
    sample.histogram.bucket.push_back({count, last ? std::numeric_limits<double>::infinity()
                                                   : static_cast<double>(histogram.kBounds[i])});
  }
  sample.histogram.sample_count = count;
  sample.histogram.sample_sum = static_cast<double>(histogram.sum);
  return sample;
}

class MetricsTable {
 public:
  void Update(int local_rank, const ReplicaMetrics& metrics) {
    const std::lock_guard lock(mutex_);
    replicas_[local_rank].Update(metrics);
  }

  void UpdateServer(const ServerMetrics& metrics) {
    const std::lock_guard lock(mutex_);
    server_ = metrics;
  }

  void UpdateEvaluator(const EvaluatorMetrics& metrics) {
    const std::lock_guard lock(mutex_);
    evaluator_ = metrics;
  }

  void CountReplicaRestart(int local_rank) {
    const std::lock_guard lock(mutex_);
    replicas_[local_rank].CountRestart();
  }

  void ShowRefusals(std::function<std::int64_t()> refusals) {
    const std::lock_guard lock(mutex_);
    refusals_ = std::move(refusals);
  }

  std::vector<MetricFamily> Collect() const {
    const std::lock_guard lock(mutex_);
    std::vector<MetricFamily> families;
    for (std::size_t i = 0; i < SeriesRows().size(); ++i) {
      const SeriesRow& row = SeriesRows()[i];
      if (families.empty() || families.back().name != row.name) {
        families.push_back({row.name, row.help, row.is_counter ? kCounter : kGauge, {}});
      }
      AddSamples(families.back(), [&](const ReplicaSeries& replica) {
        return Sample(row.is_counter, replica.rank(), row.phase, replica.value(i));
      });
    }
    AddTestMetrics(families);
    families.push_back({"lockstep_trainer_replica_restarts_total",
                        "Times that the supervisor has started the replica again.",
                        kCounter,
                        {}});
    AddRestarts(families.back());
    AddHistograms(families);
    if (server_) AddServer(*server_, families);
    if (evaluator_) AddEvaluator(*evaluator_, families);
    AddRefusals(families);
    return families;
  }

 private:
  // A replica's rank is unknown before its first report.
  template <typename MakeSample>
  void AddSamples(MetricFamily& family, const MakeSample& make_sample) const {
    for (const auto& [local_rank, replica] : replicas_) {
      if (replica.has_values()) family.metric.push_back(make_sample(replica));
    }
  }

  void AddTestMetrics(std::vector<MetricFamily>& families) const {
    MetricFamily family{"lockstep_trainer_test_metric",
                        "What evaluation.metrics names, on the test set at the last evaluation.",
                        kGauge,
                        {}};
    for (const auto& [local_rank, replica] : replicas_) {
      for (const auto& [metric, value] : replica.test_metrics()) {
        family.metric.push_back(Sample(false, replica.rank(), nullptr, value));
        family.metric.back().label.push_back({"metric", std::string(api::NameOf(metric))});
      }
    }
    if (!family.metric.empty()) families.push_back(std::move(family));
  }

  // The process of a server or of an Evaluator, which has no rank, is the pod's only one.
  void AddRestarts(MetricFamily& family) const {
    AddSamples(family, [](const ReplicaSeries& replica) {
      return Sample(true, replica.rank(), nullptr, static_cast<double>(replica.restarts()));
    });
    if (!server_ && !evaluator_) return;
    const auto process = replicas_.find(0);
    const std::int64_t restarts = process == replicas_.end() ? 0 : process->second.restarts();
    ClientMetric sample;
    if (server_) sample.label.push_back({"server", std::to_string(server_->server)});
    sample.counter.value = static_cast<double>(restarts);
    family.metric.push_back(std::move(sample));
  }

  // Rank 0 has its histograms from its first report on, because rate() misses the first count of a
  // series that starts with it. Other ranks have those that are not empty.
  void AddHistograms(std::vector<MetricFamily>& families) const {
    for (std::size_t i = 0; i < HistogramRows().size(); ++i) {
      const HistogramRow& row = HistogramRows()[i];
      MetricFamily family{row.name, row.help, MetricType::Histogram, {}};
      for (const auto& [local_rank, replica] : replicas_) {
        if (replica.rank() != "0" && replica.histogram(i).count() == 0) continue;
        family.metric.push_back(HistogramSample(replica.rank(), replica.histogram(i)));
      }
      if (!family.metric.empty()) families.push_back(std::move(family));
    }
  }

  static void AddServer(const ServerMetrics& metrics, std::vector<MetricFamily>& families) {
    const auto add = [&](const char* name, const char* help, std::int64_t value) {
      families.push_back({name, help, kCounter, {ServerSample(metrics, value)}});
    };
    add("lockstep_trainer_server_updates_total", "Updates of the parameter server's values.",
        metrics.updates);
    add("lockstep_trainer_server_dropped_gradients_total",
        "Gradients that came to the parameter server again or too late.", metrics.dropped);
    add("lockstep_trainer_server_pushed_bytes_total",
        "Gradients that workers have pushed to the parameter server.", metrics.pushed_bytes);
    add("lockstep_trainer_server_pulled_bytes_total",
        "Values that workers have pulled from the parameter server.", metrics.pulled_bytes);
    families.push_back({"lockstep_trainer_server_staleness_updates",
                        "Updates between the pull of a gradient's values and its arrival.",
                        MetricType::Histogram,
                        {StalenessSample(metrics)}});
  }

  static void AddEvaluator(const EvaluatorMetrics& metrics, std::vector<MetricFamily>& families) {
    const auto add = [&](const char* name, const char* help, MetricType type, double value) {
      ClientMetric sample;
      (type == kCounter ? sample.counter.value : sample.gauge.value) = value;
      families.push_back({name, help, type, {std::move(sample)}});
    };
    add("lockstep_trainer_evaluator_step", "Step of the checkpoint that was evaluated last.",
        kGauge, static_cast<double>(metrics.step));
    add("lockstep_trainer_evaluator_test_loss", "Mean loss of that checkpoint on the test set.",
        kGauge, metrics.test_loss);
    add("lockstep_trainer_evaluator_test_accuracy_ratio",
        "Accuracy of that checkpoint on the test set.", kGauge, metrics.test_accuracy);
    add("lockstep_trainer_evaluator_test_mean_absolute_error",
        "Mean absolute error of that checkpoint on the test set.", kGauge,
        metrics.test_mean_absolute_error);
    MetricFamily named{"lockstep_trainer_evaluator_test_metric",
                       "What evaluation.metrics names, of that checkpoint on the test set.",
                       kGauge,
                       {}};
    for (const auto& [metric, value] : metrics.test_metrics) {
      ClientMetric sample;
      sample.label.push_back({"metric", std::string(api::NameOf(metric))});
      sample.gauge.value = value;
      named.metric.push_back(std::move(sample));
    }
    if (!named.metric.empty()) families.push_back(std::move(named));
    add("lockstep_trainer_evaluator_skipped_checkpoints",
        "Checkpoints since the job began that were not evaluated.", kGauge,
        static_cast<double>(metrics.skipped));
    add("lockstep_trainer_evaluator_leader_checkpoint_step",
        "Step of the last checkpoint that the leading pod has told the Evaluator of.", kGauge,
        static_cast<double>(metrics.leader_step));
    add("lockstep_trainer_evaluator_evaluations_total", "Checkpoints that were evaluated.",
        kCounter, static_cast<double>(metrics.evaluations));
    add("lockstep_trainer_evaluator_batches_total", "Batches of test data that were evaluated.",
        kCounter, static_cast<double>(metrics.batches));
  }

  void AddRefusals(std::vector<MetricFamily>& families) const {
    if (!refusals_) return;
    ClientMetric sample;
    sample.counter.value = static_cast<double>(refusals_());
    families.push_back({"lockstep_trainer_rendezvous_refusals_total",
                        "Calls to the rendezvous that were refused: without proof that the caller "
                        "knows the job's token, or passed on from another address.",
                        kCounter,
                        {std::move(sample)}});
  }

  mutable std::mutex mutex_;
  std::map<int, ReplicaSeries> replicas_;      // by local rank
  std::optional<ServerMetrics> server_;        // of a parameter server's pod
  std::optional<EvaluatorMetrics> evaluator_;  // of an Evaluator's pod
  std::function<std::int64_t()> refusals_;     // empty: not the leading pod
};

class PageMetricsServer final : public MetricsServer {
 public:
  absl::Status Serve(const std::string& address, Duration fresh_for) {
    const HttpPage metrics = [this, fresh_for] {
      return HttpAnswer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .body = prometheus::TextSerializer().Serialize(table_.Collect()),
                        .fresh_for = fresh_for};
    };
    const HttpPage health = [] { return HttpAnswer{.body = "ok\n"}; };
    LOCKSTEP_ASSIGN_OR_RETURN(
        server_, HttpServer::Start(address, {{"/metrics", metrics}, {"/healthz", health}}));
    return absl::OkStatus();
  }

  int port() const override { return server_->port(); }
  void Update(int local_rank, const ReplicaMetrics& metrics) override {
    table_.Update(local_rank, metrics);
  }
  void UpdateServer(const ServerMetrics& metrics) override { table_.UpdateServer(metrics); }
  void UpdateEvaluator(const EvaluatorMetrics& metrics) override {
    table_.UpdateEvaluator(metrics);
  }
  void CountReplicaRestart(int local_rank) override { table_.CountReplicaRestart(local_rank); }
  void ShowRefusals(std::function<std::int64_t()> refusals) override {
    table_.ShowRefusals(std::move(refusals));
  }

 private:
  MetricsTable table_;
  std::unique_ptr<HttpServer> server_;  // last: its threads read table_
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                                    Duration fresh_for) {
  auto server = std::make_unique<PageMetricsServer>();
  LOCKSTEP_RETURN_IF_ERROR(server->Serve(address, fresh_for));
  return server;
}

}  // namespace lockstep::train
