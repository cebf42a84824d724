// The only file that includes prometheus-cpp and civetweb.
#include "trainer/observe/metrics.h"

#include <CivetServer.h>
#include <fmt/format.h>
#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// One time series of a replica: rows of the same name make one family.
struct Series {
  const char* name;
  const char* help;
  MetricType type;
  const char* phase;  // of lockstep_trainer_time_seconds_total; else null
  double (*value)(const ReplicaMetrics&);
};

template <auto member>
double Get(const ReplicaMetrics& metrics) {
  return static_cast<double>(metrics.*member);
}

constexpr char kTime[] = "lockstep_trainer_time_seconds_total";
constexpr char kTimeHelp[] = "Time spent, by phase of the work.";
constexpr auto kGauge = MetricType::Gauge;
constexpr auto kCounter = MetricType::Counter;
using M = ReplicaMetrics;

constexpr Series kSeries[] = {
    {"lockstep_trainer_world_size", "Replicas that train together.", kGauge, nullptr,
     Get<&M::world>},
    {"lockstep_trainer_step", "Steps done since the job began.", kGauge, nullptr, Get<&M::step>},
    {"lockstep_trainer_epoch", "Epochs done since the job began.", kGauge, nullptr, Get<&M::epoch>},
    {"lockstep_trainer_loss", "Mean training loss since the epoch's start.", kGauge, nullptr,
     Get<&M::loss>},
    {"lockstep_trainer_accuracy_ratio", "Training accuracy since the epoch's start.", kGauge,
     nullptr, Get<&M::accuracy>},
    {"lockstep_trainer_learning_rate", "Learning rate of the latest step.", kGauge, nullptr,
     Get<&M::learning_rate>},
    {"lockstep_trainer_examples_per_second", "Training speed of all replicas together, lately.",
     kGauge, nullptr, Get<&M::examples_per_second>},
    {"lockstep_trainer_checkpoint_last_step", "Step of the newest checkpoint; -1: none yet.",
     kGauge, nullptr, Get<&M::last_checkpoint_step>},
    {"lockstep_trainer_checkpoint_last_success_timestamp_seconds",
     "When the newest checkpoint was saved; 0: none yet.", kGauge, nullptr,
     Get<&M::last_checkpoint_time>},
    {"lockstep_trainer_steps_total", "Steps that the replica has taken part in.", kCounter, nullptr,
     Get<&M::steps_total>},
    {"lockstep_trainer_examples_total", "Samples that the replica has trained on.", kCounter,
     nullptr, Get<&M::examples_total>},
    {"lockstep_trainer_allreduce_bytes_total", "Bytes that the replica has put into all-reduces.",
     kCounter, nullptr, Get<&M::all_reduce_bytes>},
    {"lockstep_trainer_generations_total", "Memberships that the replica has been part of.",
     kCounter, nullptr, Get<&M::generations>},
    {"lockstep_trainer_samples_lost_total", "Samples that an epoch has left out.", kCounter,
     nullptr, Get<&M::samples_lost>},
    {"lockstep_trainer_samples_duplicated_total", "Samples that an epoch has used again.", kCounter,
     nullptr, Get<&M::samples_duplicated>},
    {kTime, kTimeHelp, kCounter, "input", Get<&M::input_seconds>},
    {kTime, kTimeHelp, kCounter, "compute", Get<&M::compute_seconds>},
    {kTime, kTimeHelp, kCounter, "communication", Get<&M::communication_seconds>},
    {kTime, kTimeHelp, kCounter, "optimizer", Get<&M::optimizer_seconds>},
    {kTime, kTimeHelp, kCounter, "checkpoint", Get<&M::checkpoint_seconds>},
    {kTime, kTimeHelp, kCounter, "evaluation", Get<&M::evaluation_seconds>},
    {kTime, kTimeHelp, kCounter, "rendezvous", Get<&M::rendezvous_seconds>},
};
constexpr std::size_t kSeriesCount = std::size(kSeries);

ClientMetric Sample(MetricType type, const std::string& rank, const char* phase, double value) {
  ClientMetric sample;
  sample.label.push_back({"rank", rank});
  if (phase != nullptr) sample.label.push_back({"phase", phase});
  (type == kCounter ? sample.counter.value : sample.gauge.value) = value;
  return sample;
}

// The numbers of one replica over all of its processes.
class ReplicaSeries {
 public:
  // A process counts from 0, so a total that went back is that of a new one; its counts are added.
  void Update(const ReplicaMetrics& metrics) {
    rank_ = std::to_string(metrics.rank);
    for (std::size_t i = 0; i < kSeriesCount; ++i) {
      const double value = kSeries[i].value(metrics);
      if (kSeries[i].type == kCounter) {
        values_[i] += value >= process_totals_[i] ? value - process_totals_[i] : value;
        process_totals_[i] = value;
      } else {
        values_[i] = value;
      }
    }
    has_values_ = true;
  }

  void CountRestart() {
    ++restarts_;
    process_totals_ = {};
  }

  const std::string& rank() const { return rank_; }
  bool has_values() const { return has_values_; }
  double value(std::size_t series) const { return values_[series]; }
  double restarts() const { return restarts_; }

 private:
  std::string rank_;
  bool has_values_ = false;
  std::array<double, kSeriesCount> values_{}, process_totals_{};
  double restarts_ = 0;
};

class MetricsTable {
 public:
  void Update(int local_rank, const ReplicaMetrics& metrics) {
    const std::lock_guard lock(mutex_);
    replicas_[local_rank].Update(metrics);
  }

  void CountReplicaRestart(int local_rank) {
    const std::lock_guard lock(mutex_);
    replicas_[local_rank].CountRestart();
  }

  std::vector<MetricFamily> Collect() const {
    const std::lock_guard lock(mutex_);
    std::vector<MetricFamily> families;
    for (std::size_t i = 0; i < kSeriesCount; ++i) {
      const Series& series = kSeries[i];
      if (families.empty() || families.back().name != series.name) {
        families.push_back({series.name, series.help, series.type, {}});
      }
      for (const auto& [local_rank, replica] : replicas_) {
        if (!replica.has_values()) continue;
        families.back().metric.push_back(
            Sample(series.type, replica.rank(), series.phase, replica.value(i)));
      }
    }
    families.push_back({"lockstep_trainer_replica_restarts_total",
                        "Times that the supervisor has started the replica again.",
                        kCounter,
                        {}});
    for (const auto& [local_rank, replica] : replicas_) {
      // Before its first report a replica's rank is not known.
      if (!replica.has_values()) continue;
      families.back().metric.push_back(
          Sample(kCounter, replica.rank(), nullptr, replica.restarts()));
    }
    return families;
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, ReplicaSeries> replicas_;  // by local rank
};

// Answers GET and HEAD with what `content` returns.
class PageHandler final : public CivetHandler {
 public:
  PageHandler(const char* type, std::function<std::string()> content)
      : type_(type), content_(std::move(content)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    return Answer(connection, /*with_body=*/true);
  }
  bool handleHead(CivetServer*, mg_connection* connection) override {
    return Answer(connection, /*with_body=*/false);
  }

 private:
  bool Answer(mg_connection* connection, bool with_body) {
    const std::string body = content_();
    const std::string head = fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n",
        type_, body.size());
    mg_write(connection, head.data(), head.size());
    if (with_body) mg_write(connection, body.data(), body.size());
    return true;
  }

  const char* type_;
  const std::function<std::string()> content_;
};

class CivetMetricsServer final : public MetricsServer {
 public:
  // Throws CivetException if the address cannot be bound.
  explicit CivetMetricsServer(const std::string& address)
      : metrics_page_("text/plain; version=0.0.4; charset=utf-8",
                      [this] { return prometheus::TextSerializer().Serialize(table_.Collect()); }),
        health_page_("text/plain", [] { return std::string("ok\n"); }),
        server_(std::vector<std::string>{"listening_ports", address, "num_threads", "2",
                                         "request_timeout_ms", "5000"}) {
    server_.addHandler("/metrics$", metrics_page_);
    server_.addHandler("/healthz$", health_page_);
    const std::vector<int> ports = server_.getListeningPorts();
    port_ = ports.empty() ? 0 : ports.front();
  }

  int port() const override { return port_; }
  void Update(int local_rank, const ReplicaMetrics& metrics) override {
    table_.Update(local_rank, metrics);
  }
  void CountReplicaRestart(int local_rank) override { table_.CountReplicaRestart(local_rank); }

 private:
  MetricsTable table_;
  PageHandler metrics_page_, health_page_;
  int port_ = 0;
  CivetServer server_;  // last: its threads use all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address) {
  try {
    return std::make_unique<CivetMetricsServer>(address);
  } catch (const CivetException& error) {
    return absl::UnavailableError(fmt::format(
        "metrics address {}: cannot listen: is the port taken? ({})", address, error.what()));
  }
}

}  // namespace lockstep::train
