#include "operator/server/run_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor_limit.h"
#include "base/http_server.h"
#include "base/log.h"
#include "base/status.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/job_controller.h"
#include "operator/controller/state/job_facts.h"
#include "operator/health/checks.h"
#include "operator/health/list_access.h"
#include "operator/health/watchdog.h"
#include "operator/kube/instrumented_client.h"
#include "operator/kube/rest/rest_client.h"
#include "operator/kube/runtime/leader_elector.h"
#include "operator/kube/served_version_client.h"
#include "operator/metrics/job_transition.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/progress/progress_poller.h"
#include "operator/progress/report_endpoint.h"
#include "operator/server/cluster_access.h"
#include "operator/server/process_options.h"

namespace lockstep::server {
namespace {

// A candidate is able to lead if its last successful call about the lease is no older than this.
constexpr Duration kLeaseSilence = std::chrono::seconds(30);
constexpr Duration kKeyRetry = std::chrono::seconds(10);

std::vector<health::ListAccess::Followed> FollowedBy(const controller::JobController& controller) {
  std::vector<health::ListAccess::Followed> followed;
  for (const auto& cache : controller.Stats().caches) {
    for (const kube::FeedState& feed : cache.feeds) {
      followed.push_back({cache.kind, feed.namespace_name});
    }
  }
  return followed;
}

// Runs no destructors: this process must not write any more.
void ExitWithoutLease(const std::string& reason) {
  LogError("lost the lease: exiting", {{"reason", reason}});
  std::_Exit(1);
}

class Operator {
 public:
  Operator(const Flags& flags, const Clock& clock, const kube::RestConfig& cluster,
           std::unique_ptr<kube::RestClient> api, std::unique_ptr<kube::RestClient> lease_api);

  absl::Status Serve();  // probes and metrics
  void Run(std::stop_token stop);

 private:
  controller::JobTokens* TokensOf(const Flags& flags, const Clock& clock,
                                  const kube::RestConfig& cluster);
  controller::ProgressSource& ProgressOf(const Flags& flags);
  bool KnowsJobs(const std::string& namespace_name) const;
  std::optional<progress::ReportingJob> ReportingJobOf(const kube::Key& key) const;
  void LoadKey(const std::stop_token& stop);
  void AddChecks();
  HttpAnswer AnswerReadiness();
  absl::Status CheckWorkers() const;
  absl::Status CheckAbleToLead() const;
  absl::Status CheckAccess() const;
  absl::Status CheckCaches() const;
  metrics::Snapshot TakeSnapshot() const;
  bool Lead(std::stop_token stop);

  const Flags& flags_;
  const Clock& clock_;
  const std::size_t descriptors_;  // this process' limit of open descriptors
  const std::string server_;
  const Duration silence_limit_;
  health::Watchdog watchdog_;
  metrics::OperatorMetrics metrics_;
  const std::unique_ptr<kube::RestClient> api_, lease_api_;
  kube::InstrumentedClient client_, lease_client_;
  kube::ServedVersionClient kueue_client_;  // client_, for Kueue's kinds too
  const controller::DnsAddresses addresses_;
  std::optional<controller::JobTokens> tokens_;
  controller::NoProgress no_progress_;
  std::optional<progress::ProgressPoller> poller_;
  controller::ProgressReports reports_;
  controller::JobController controller_;
  health::ListAccess access_;
  const kube::LeaderElectionOptions election_;
  kube::LeaderElector elector_;
  std::atomic<bool> leads_{false};
  health::Checks alive_, ready_;
  const progress::ReportEndpoint report_endpoint_;
  std::unique_ptr<HttpServer> probe_server_, metrics_server_,
      progress_server_;  // after what they use
  std::jthread asking_;  // of access_, until this process leads
};

Operator::Operator(const Flags& flags, const Clock& clock, const kube::RestConfig& cluster,
                   std::unique_ptr<kube::RestClient> api,
                   std::unique_ptr<kube::RestClient> lease_api)
    : flags_(flags),
      clock_(clock),
      descriptors_(RaiseDescriptorLimit()),
      server_(cluster.server),
      silence_limit_(2 * ApiOptions(flags).watch_timeout),
      watchdog_(clock),
      metrics_(clock, LOCKSTEP_VERSION),
      api_(std::move(api)),
      lease_api_(std::move(lease_api)),
      client_(*api_, clock, {&watchdog_, &metrics_}),
      lease_client_(*lease_api_, clock, {&watchdog_, &metrics_}),
      kueue_client_(client_, controller::kKueueGroup, controller::kKueueVersions,
                    controller::WorkloadIn),
      controller_(
          kueue_client_, addresses_, ProgressOf(flags), clock,
          ControllerOptions(flags, cluster, TokensOf(flags, clock, cluster), reports_, metrics_)),
      access_(kueue_client_, FollowedBy(controller_)),
      election_(ElectionOptions(flags, cluster)),
      elector_(lease_client_, clock, election_, ExitWithoutLease),
      report_endpoint_(
          reports_, clock,
          {.knows_jobs = [this](const auto& space) { return KnowsJobs(space); },
           .find = [this](const auto& space,
                          const auto& name) { return ReportingJobOf({space, name}); },
           .on_report = [this](const auto& space, const auto& name,
                               bool at_once) { controller_.Look({space, name}, at_once); }}) {
  AddChecks();
}

controller::JobTokens* Operator::TokensOf(const Flags& flags, const Clock& clock,
                                          const kube::RestConfig& cluster) {
  if (!flags.job_tokens) return nullptr;
  const kube::Key key{cluster.namespace_name, flags.token_key_secret};
  LogInfo("jobs' tokens are made of a key", {{"secret", key.namespace_name + "/" + key.name}});
  return &tokens_.emplace(client_, clock, key);
}

// Polls nothing if disabled: pods run tenants' code.
controller::ProgressSource& Operator::ProgressOf(const Flags& flags) {
  if (!flags.poll_progress) return no_progress_;
  progress::PollerOptions options;
  // Pods may use most descriptors, never all: the API server and probes need some.
  options.most_links = std::min(options.most_links, descriptors_ / 6);
  options.most_calls = std::min(options.most_calls, descriptors_ / 12);
  options.token_of = [this](const std::string& job_uid) {
    return tokens_ ? tokens_->For(job_uid) : api::JobToken();
  };
  return poller_.emplace(std::move(options));
}

// An operator that does not lead has no namespace open, nor does one that stops: whatever it took
// would be lost.
bool Operator::KnowsJobs(const std::string& namespace_name) const {
  return controller_.IsOpen(namespace_name) && tokens_ && tokens_->IsLoaded();
}

std::optional<progress::ReportingJob> Operator::ReportingJobOf(const kube::Key& key) const {
  const auto found = controller_.jobs().Get(key);
  if (found == nullptr) return std::nullopt;
  const api::TrainingJob& job = found->value.job;
  return progress::ReportingJobOf(job, tokens_->For(job.metadata.uid));
}

void Operator::AddChecks() {
  alive_.Add("watches", [this] { return watchdog_.Check(); });
  alive_.Add("workers", [this] { return CheckWorkers(); });
  ready_.Add("leader-election", [this] { return CheckAbleToLead(); });
  ready_.Add("access", [this] { return CheckAccess(); });
  ready_.Add("caches", [this] { return CheckCaches(); });
}

HttpAnswer Operator::AnswerReadiness() {
  HttpAnswer answer = ready_.Answer();
  reports_.NoteReadiness(answer.status == 200, clock_.SteadyNow());
  return answer;
}

absl::Status Operator::CheckWorkers() const {
  const kube::WorkQueueStats stats = controller_.Stats().queue;
  if (stats.longest_running <= silence_limit_) return absl::OkStatus();
  const auto seconds = [](Duration duration) {
    return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  };
  return absl::UnavailableError(fmt::format(
      "a worker has been at {}/{} for {} s, expected at most {} s", stats.longest.namespace_name,
      stats.longest.name, seconds(stats.longest_running), seconds(silence_limit_)));
}

absl::Status Operator::CheckAbleToLead() const {
  if (leads_ || !flags_.leader_elect) return absl::OkStatus();
  const std::string& space = election_.lease.namespace_name;
  const auto since = watchdog_.SinceSuccess(kube::kLeaseKind, space);
  if (since && *since <= kLeaseSilence) return absl::OkStatus();
  const std::string error = watchdog_.LastError(kube::kLeaseKind, space);
  return absl::UnavailableError(fmt::format("cannot reach the lease {}/{} at {}: {}", space,
                                            election_.lease.name, server_,
                                            error.empty() ? "no answer yet" : error));
}

absl::Status Operator::CheckAccess() const {
  return leads_ || !flags_.leader_elect ? absl::OkStatus() : access_.Check();
}

absl::Status Operator::CheckCaches() const {
  if (!leads_) return absl::OkStatus();  // caches are filled once this process leads
  std::string missing;
  for (const auto& cache : controller_.Stats().caches) {
    for (const kube::FeedState& feed : cache.feeds) {
      if (feed.synced) continue;
      const std::string error(feed.last_error.message());
      missing += fmt::format("{}{}{}{}: {}", missing.empty() ? "" : "; ", cache.kind.plural,
                             feed.namespace_name.empty() ? "" : " in ", feed.namespace_name,
                             error.empty() ? "not listed yet" : error);
    }
  }
  return missing.empty() ? absl::OkStatus() : absl::UnavailableError(missing);
}

metrics::Snapshot Operator::TakeSnapshot() const {
  const controller::JobControllerStats stats = controller_.Stats();
  const std::map<kube::Key, controller::JobSigns> signs = controller_.Signs();
  metrics::Snapshot snapshot;
  snapshot.queue = stats.queue;
  snapshot.successes = stats.successes;
  snapshot.failures = stats.failures;
  snapshot.stale_reads = stats.stale_reads;
  snapshot.grown = stats.grown;
  snapshot.shrunk = stats.shrunk;
  snapshot.leader = leads_;
  for (const auto& cache : stats.caches) {
    snapshot.caches.push_back({cache.kind.plural, cache.synced, cache.objects});
  }
  for (const auto& job : controller_.jobs().List()) {
    const api::Progress progress = job->value.job.status.progress.value_or(api::Progress{});
    const auto found = signs.find(job->key);
    const bool is_known = found != signs.end();
    snapshot.jobs.push_back(
        {.namespace_name = job->key.namespace_name,
         .name = job->key.name,
         .state = job->value.job.status.state,
         .has_training = job->value.job.spec.training && !controller::IsForeign(job->value.job),
         .diverged = metrics::DivergedAt(job->value.job),
         .restarts = is_known ? std::optional(found->second.restarts()) : std::nullopt,
         .short_since = is_known ? found->second.short_since() : std::nullopt,
         .diverged_variants = metrics::DivergedVariants(job->value.job),
         .samples_lost = progress.samples_lost.value_or(0),
         .samples_duplicated = progress.samples_duplicated.value_or(0)});
  }
  return snapshot;
}

absl::Status Operator::Serve() {
  if (flags_.health_probe_bind_address != "0") {
    LOCKSTEP_ASSIGN_OR_RETURN(
        probe_server_, HttpServer::Start(flags_.health_probe_bind_address,
                                         {{"/healthz", [this] { return alive_.Answer(); }},
                                          {"/readyz", [this] { return AnswerReadiness(); }}}));
  }
  if (flags_.metrics_bind_address != "0") {
    const auto page = [this] {
      return HttpAnswer{.content_type = metrics::OperatorMetrics::kContentType,
                        .body = metrics_.Text(TakeSnapshot()),
                        .fresh_for = std::chrono::seconds(1)};
    };
    LOCKSTEP_ASSIGN_OR_RETURN(metrics_server_,
                              HttpServer::Start(flags_.metrics_bind_address, {{"/metrics", page}}));
  }
  if (flags_.progress_bind_address != "0") {
    LOCKSTEP_ASSIGN_OR_RETURN(progress_server_, HttpServer::Start(flags_.progress_bind_address, {},
                                                                  report_endpoint_.Intake()));
  }
  LogInfo("serving", {{"probePort", probe_server_ ? probe_server_->port() : 0},
                      {"metricsPort", metrics_server_ ? metrics_server_->port() : 0},
                      {"progressPort", progress_server_ ? progress_server_->port() : 0}});
  return absl::OkStatus();
}

// Returns false if stopped first.
bool Operator::Lead(std::stop_token stop) {
  if (!flags_.leader_elect) return true;
  watchdog_.ExpectCalls(kube::kLeaseKind, election_.lease.namespace_name, silence_limit_);
  LogInfo("standing for election",
          {{"lease", election_.lease.namespace_name + "/" + election_.lease.name},
           {"identity", election_.identity}});
  asking_ = std::jthread([this](const std::stop_token& leads) { access_.Run(leads); });
  const absl::Status acquired = elector_.Acquire(std::move(stop));
  asking_.request_stop();  // not joined: a request under way must not delay what a leader does
  if (!acquired.ok()) LogInfo("not leading", {{"reason", acquired.ToString()}});
  return acquired.ok();
}

// Retries until the key is loaded: polling jobs that run already needs their tokens. New jobs load
// the key themselves.
void Operator::LoadKey(const std::stop_token& stop) {
  if (!tokens_) return;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  std::string told;
  while (!stop.stop_requested()) {
    const absl::Status loaded = tokens_->Load();
    if (loaded.ok()) return;
    if (told != loaded.message()) {
      told = std::string(loaded.message());
      LogError("jobs with a `training` section wait",
               {{"error", told},
                {"hint", "grant what docs/security.md lists, or start with --job-tokens=false"}});
    }
    stopped.wait_for(lock, stop, kKeyRetry, [] { return false; });
  }
}

void Operator::Run(std::stop_token stop) {
  if (!Lead(stop)) return;
  leads_ = true;
  LogInfo("leading", {{"version", LOCKSTEP_VERSION}});
  for (const auto& [kind, space] : FollowedBy(controller_)) {
    watchdog_.Expect(kind, space, silence_limit_);
  }
  controller_.Start();
  LoadKey(stop);
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait(lock, stop, [] { return false; });
  controller_.Stop();
  // Only now, because the next leader may write from here on.
  if (flags_.leader_elect) elector_.Release();
  LogInfo("stopped");
}

absl::StatusOr<std::unique_ptr<Operator>> MakeOperator(const Flags& flags, const Clock& clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::RestConfig cluster, FindCluster(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(auto api, kube::MakeRestClient(cluster, ApiOptions(flags)));
  LOCKSTEP_ASSIGN_OR_RETURN(auto lease_api, kube::MakeRestClient(cluster, LeaseOptions()));
  LogInfo("cluster", {{"server", cluster.server}});
  auto made =
      std::make_unique<Operator>(flags, clock, cluster, std::move(api), std::move(lease_api));
  LOCKSTEP_RETURN_IF_ERROR(made->Serve());
  return made;
}

}  // namespace

int RunOperator(const Flags& flags, const Clock& clock, std::stop_token stop) {
  auto made = MakeOperator(flags, clock);
  if (!made.ok()) {
    LogError("cannot start", {{"error", std::string(made.status().message())}});
    return 1;
  }
  // Never destroyed: the process ends, and closing all connections properly would only take time.
  Operator& running = *made->release();
  running.Run(std::move(stop));
  return 0;
}

}  // namespace lockstep::server
