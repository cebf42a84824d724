#include "trainer/supervisor/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "api/v1/names.h"
#include "api/v1/variants.h"
#include "base/check.h"
#include "base/descriptor.h"
#include "base/launch.h"
#include "base/log.h"
#include "base/signal_fd.h"
#include "base/status.h"
#include "trainer/observe/termination_message.h"
#include "trainer/rendezvous/evaluator_status.h"
#include "trainer/rendezvous/identity_roster.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/rendezvous/rendezvous_service.h"
#include "trainer/supervisor/metrics_pipe.h"
#include "trainer/supervisor/replica_process.h"
#include "trainer/supervisor/stop_deadline.h"

namespace lockstep::train {
namespace {

struct Replica {
  int local_rank = 0;
  pid_t pid = -1;  // -1: not running
  std::unique_ptr<MetricsPipeReader> metrics;
  ReplicaMetrics last;  // what it sent last
  std::optional<SteadyTime> restart_at;
  std::int64_t starts = 0;
  int exit_code = 0;  // of the last process
};

class Supervisor {
 public:
  Supervisor(const Identity& identity, const Clock& clock, const SupervisorOptions& options)
      : identity_(identity),
        clock_(clock),
        options_(options),
        started_(clock.Now()),
        stop_(options.stop_grace, kBusyWithin),
        budgets_(static_cast<std::size_t>(
                     identity.Traits().trains_alone ? std::max(1, identity.processes_per_pod) : 1),
                 RestartBudget(options.restart_budget)) {}

  absl::StatusOr<int> Run();

 private:
  absl::Status StartServers();
  absl::Status StartSuccessorWatch();
  void StartMetrics();
  void StartEvaluatorStatus();
  void ShowReplica(int local_rank);
  absl::Status StartReplica(Replica& replica);
  void Wait();
  void HandleSignals();
  void Asked(const std::string& by);
  void Superseded();
  bool HasSuccessor() const;
  void Reap();
  void ReplicaEnded(Replica& replica, int wait_status);
  void ReplicaFailed(Replica& replica);
  void ReadMetrics(Replica& replica);
  void ShowMetrics(Replica& replica, const std::string& line);
  // Counts the progress of a decoded line; warns of one that is malformed and returns nullopt.
  template <typename Metrics>
  std::optional<Metrics> Accept(const Replica& replica, const absl::StatusOr<Metrics>& metrics);
  void StartDue();
  void StopReplicas();
  void SignalAll(int signal);
  bool AllEnded() const;
  int PodExitCode() const;
  RestartBudget& BudgetOf(const Replica& replica);
  void LeaveResults() const;
  void Drain();

  const Identity& identity_;
  const Clock& clock_;
  const SupervisorOptions& options_;
  const Time started_;
  SignalFd signals_{SIGTERM, SIGINT, SIGCHLD};  // before the members below start threads
  StopDeadline stop_;                           // set: stopping
  std::vector<RestartBudget> budgets_;          // one for each process that trains alone, else one
  std::unique_ptr<RendezvousService> rendezvous_;  // null unless this pod leads
  std::unique_ptr<SuccessorWatch> successor_;      // likewise, and unless its address is unknown
  std::unique_ptr<EvaluatorStatus> evaluator_status_;  // null unless this pod evaluates
  std::unique_ptr<MetricsServer> metrics_;
  std::vector<Replica> replicas_;
  std::optional<int> failure_;  // exit code of the first permanent failure
};

absl::StatusOr<int> Supervisor::Run() {
  LOCKSTEP_RETURN_IF_ERROR(StartServers());
  for (int rank = 0; rank < identity_.Processes(); ++rank) {
    replicas_.emplace_back().local_rank = rank;
    ShowReplica(rank);
  }
  for (Replica& replica : replicas_) {
    if (absl::Status started = StartReplica(replica); !started.ok()) {
      SignalAll(SIGKILL);
      return started;
    }
  }
  while (!AllEnded()) {
    Wait();
    HandleSignals();
    for (Replica& replica : replicas_) ReadMetrics(replica);
    StartDue();
  }
  const int code = PodExitCode();
  if (code == api::kExitDone && identity_.Traits().trains_alone) LeaveResults();
  if (code == api::kExitDone) Drain();
  return code;
}

absl::Status Supervisor::StartServers() {
  if (identity_.IsLeader()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        rendezvous_,
        RendezvousService::Start(RosterFor(identity_), ListenAddress(identity_), clock_));
    LOCKSTEP_RETURN_IF_ERROR(StartSuccessorWatch());
  }
  if (identity_.role == api::Role::kEvaluator) StartEvaluatorStatus();
  if (options_.start_metrics) StartMetrics();
  return absl::OkStatus();
}

// A run on one machine, or a pod on its node's network, may find the port taken by anything. That
// is no reason not to train.
void Supervisor::StartMetrics() {
  auto metrics = options_.start_metrics();
  if (!metrics.ok()) {
    LogWarning("this pod serves no metrics", {{"reason", std::string(metrics.status().message())}});
    return;
  }
  metrics_ = *std::move(metrics);
  // rendezvous_ outlives the metrics server
  if (rendezvous_) metrics_->ShowRefusals([this] { return rendezvous_->refusals(); });
}

absl::Status Supervisor::StartSuccessorWatch() {
  const std::set<std::string> own = AddressesOf(identity_.pod_ip);
  if (identity_.pod_ip.empty() || own.empty()) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  successor_ = std::make_unique<SuccessorWatch>(identity_.LeaderHost(), *own.begin(),
                                                std::move(pipe), options_.successor_watch);
  return absl::OkStatus();
}

// An Evaluator works without this server, but then the operator cannot see that it does.
void Supervisor::StartEvaluatorStatus() {
  const std::string& own = identity_.cluster.evaluator[static_cast<std::size_t>(identity_.index)];
  auto status = EvaluatorStatus::Start(identity_, ListenAddress(identity_, own), clock_);
  if (status.ok()) {
    evaluator_status_ = *std::move(status);
    return;
  }
  LogWarning(
      "the operator cannot ask this Evaluator whether it still evaluates, and so waits for "
      "its last evaluation only for the shortest time",
      {{"reason", std::string(status.status().message())}});
}

// Publishes initial metrics, so that a replica that dies before its first line still shows up.
void Supervisor::ShowReplica(int local_rank) {
  const int rank = identity_.RankOf(local_rank);
  if (!metrics_ || rank < 0) return;
  metrics_->Update(local_rank, MetricsAtStart(rank, identity_.World()));
}

absl::Status Supervisor::StartReplica(Replica& replica) {
  replica.restart_at.reset();
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe metrics, MakePipe());
  const ReplicaStart start{.command = options_.replica_command,
                           .local_rank = replica.local_rank,
                           .number = ++replica.starts,
                           .pod_started = started_,
                           .rendezvous_port = rendezvous_ ? rendezvous_->port() : 0};
  const LaunchSpec spec = ReplicaLaunch(identity_, start, metrics.write.fd());
  LOCKSTEP_ASSIGN_OR_RETURN(replica.pid, Launch(spec));
  replica.metrics = std::make_unique<MetricsPipeReader>(std::move(metrics.read));
  LogInfo("replica started", {{"local_rank", replica.local_rank}, {"pid", replica.pid}});
  return absl::OkStatus();
}

// Waits for a signal, for metrics, or until the next restart or kill is due.
void Supervisor::Wait() {
  std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
  if (successor_ && !stop_.is_set()) fds.push_back({successor_->fd(), POLLIN, 0});
  std::optional<SteadyTime> due = stop_.next();
  for (const Replica& replica : replicas_) {
    if (replica.metrics && replica.metrics->open()) {
      fds.push_back({replica.metrics->fd(), POLLIN, 0});
    }
    if (replica.restart_at) due = due ? std::min(*due, *replica.restart_at) : replica.restart_at;
  }
  int timeout_ms = -1;
  if (due) {
    const Duration left =
        std::clamp<Duration>(*due - clock_.SteadyNow(), Duration::zero(), std::chrono::minutes(1));
    timeout_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }
  poll(fds.data(), fds.size(), timeout_ms);
}

void Supervisor::HandleSignals() {
  while (const std::optional<int> signal = signals_.Next()) {
    *signal == SIGCHLD ? Reap() : Asked(*signal == SIGTERM ? "SIGTERM" : "SIGINT");
  }
  // The members join the successor as soon as this pod's streams have ended.
  if (successor_ && !stop_.is_set() && HasSuccessor()) Superseded();
  if (stop_.IsDue(clock_.SteadyNow(), rendezvous_ && rendezvous_->LeaderSaves())) {
    LogWarning("the time to save and leave is over: killing the replicas");
    SignalAll(SIGKILL);
  }
}

// After a failure the replicas have already been asked to stop; from now on they have less time.
void Supervisor::Asked(const std::string& by) {
  const bool is_first = !stop_.is_set();
  stop_.Asked(clock_.SteadyNow());
  if (!is_first) return;
  LogInfo("asked to stop: the replicas save and leave", {{"by", by}});
  StopReplicas();
}

// The kubelet that would kill this pod is dead, so a save may take longer than the grace period.
void Supervisor::Superseded() {
  const std::chrono::seconds deadline(identity_.training.rendezvous_timeout_seconds);
  const SuccessorWatchOptions& watch = options_.successor_watch;
  stop_.Superseded(clock_.SteadyNow(), deadline - watch.after - watch.every);
  LogInfo("asked to stop: the replicas save and leave", {{"by", "a later pod of this name"}});
  StopReplicas();
}

bool Supervisor::HasSuccessor() const {
  pollfd successor{successor_->fd(), POLLIN, 0};
  return poll(&successor, 1, 0) > 0;
}

// Reaps all children that have ended: one SIGCHLD may cover several, and PID 1 inherits orphans.
void Supervisor::Reap() {
  int wait_status = 0;
  while (const pid_t pid = waitpid(-1, &wait_status, WNOHANG)) {
    if (pid < 0) return;
    const auto at = std::ranges::find(replicas_, pid, &Replica::pid);
    if (at != replicas_.end()) ReplicaEnded(*at, wait_status);
  }
}

void Supervisor::ReplicaEnded(Replica& replica, int wait_status) {
  ReadMetrics(replica);
  replica.pid = -1;
  replica.metrics.reset();
  replica.exit_code = ExitCodeOf(wait_status);
  const nlohmann::json fields = {{"local_rank", replica.local_rank},
                                 {"exit_code", replica.exit_code}};
  if (replica.exit_code == api::kExitDone || stop_.is_set()) {
    LogInfo(fmt::format("replica ended: {}", DescribeExit(wait_status)), fields);
    return;
  }
  LogError(fmt::format("replica failed: {}", DescribeExit(wait_status)), fields);
  ReplicaFailed(replica);
}

// Starts it again if its exit code and its budget allow that; else stops the pod.
void Supervisor::ReplicaFailed(Replica& replica) {
  if (options_.restart_in_place && MayPassInPlace(replica.exit_code)) {
    RestartBudget& budget = BudgetOf(replica);
    if (const std::optional<Duration> delay = budget.Charge()) {
      replica.restart_at = clock_.SteadyNow() + *delay;
      if (metrics_) metrics_->CountReplicaRestart(replica.local_rank);
      return;
    }
    LogError(fmt::format("{} restarts without a step of progress: giving up", budget.used()));
  }
  failure_ = replica.exit_code;
  // The others may have state to save: a variant that trains alone, or the rank that saves.
  stop_.Failed(clock_.SteadyNow());
  StopReplicas();
}

void Supervisor::ReadMetrics(Replica& replica) {
  if (!replica.metrics) return;
  // What nobody decodes is read, too, or poll() would return at once.
  for (const std::string& line : replica.metrics->Lines()) {
    if (options_.decode_metrics) ShowMetrics(replica, line);
  }
}

// A restarted process counts from 0. For replicas, MetricsServer::Update adds to the totals of the
// earlier processes (ReplicaSeries); the counters of a parameter server and of an Evaluator start
// again, as Prometheus allows.
void Supervisor::ShowMetrics(Replica& replica, const std::string& line) {
  if (identity_.role == api::Role::kParameterServer) {
    const auto metrics = Accept(replica, options_.decode_server_metrics(line));
    if (metrics && metrics_) metrics_->UpdateServer(*metrics);
    return;
  }
  if (identity_.role == api::Role::kEvaluator) {  // an evaluated checkpoint is a step of progress
    const auto metrics = Accept(replica, options_.decode_evaluator_metrics(line));
    if (metrics && evaluator_status_) evaluator_status_->Update(metrics->batches);
    if (metrics && metrics_) metrics_->UpdateEvaluator(*metrics);
    return;
  }
  const auto metrics = Accept(replica, options_.decode_metrics(line));
  if (!metrics) return;
  replica.last = *metrics;
  if (metrics_) metrics_->Update(replica.local_rank, *metrics);
}

template <typename Metrics>
std::optional<Metrics> Supervisor::Accept(const Replica& replica,
                                          const absl::StatusOr<Metrics>& metrics) {
  if (!metrics.ok()) {
    LogWarning(
        fmt::format("replica {} has sent a line that is not its metrics", replica.local_rank),
        {{"reason", std::string(metrics.status().message())}});
    return std::nullopt;
  }
  BudgetOf(replica).Progress(OwnStep(*metrics));
  return *metrics;
}

// A restart that fails, perhaps for lack of memory or processes, counts as another failure of that
// replica. The other replicas keep their state.
void Supervisor::StartDue() {
  for (Replica& replica : replicas_) {
    if (!replica.restart_at || clock_.SteadyNow() < *replica.restart_at) continue;
    const absl::Status started = StartReplica(replica);
    if (started.ok()) continue;
    LogError("replica could not be started again",
             {{"local_rank", replica.local_rank}, {"reason", std::string(started.message())}});
    ReplicaFailed(replica);
  }
}

void Supervisor::StopReplicas() {
  for (Replica& replica : replicas_) replica.restart_at.reset();
  SignalAll(SIGTERM);
}

void Supervisor::SignalAll(int signal) {
  for (const Replica& replica : replicas_) {
    if (replica.pid > 0) kill(replica.pid, signal);
  }
}

bool Supervisor::AllEnded() const {
  return std::none_of(replicas_.begin(), replicas_.end(), [](const Replica& replica) {
    return replica.pid > 0 || replica.restart_at.has_value();
  });
}

int Supervisor::PodExitCode() const {
  if (failure_) return *failure_;
  std::vector<int> codes;
  for (const Replica& replica : replicas_) codes.push_back(replica.exit_code);
  return CodeOfAll(codes);
}

// Processes that train together make progress together.
RestartBudget& Supervisor::BudgetOf(const Replica& replica) {
  return budgets_[budgets_.size() == 1 ? 0 : static_cast<std::size_t>(replica.local_rank)];
}

void Supervisor::LeaveResults() const {
  std::vector<api::VariantResult> results;
  for (const Replica& replica : replicas_)
    results.push_back(ResultOf(replica.last, identity_.RankOf(replica.local_rank)));
  LeaveTerminationMessage(options_.termination_message_path, api::ResultsToMessage(results));
}

// Keeps the rendezvous up until all members have learned that training is done.
void Supervisor::Drain() {
  if (!rendezvous_ || rendezvous_->WaitUntilDrained(options_.drain_deadline)) return;
  LogWarning("some members did not say goodbye before the leader's end");
}

}  // namespace

absl::StatusOr<int> RunSupervisor(const Identity& identity, const Clock& clock,
                                  const SupervisorOptions& options) {
  LOCKSTEP_CHECK(getpid() == gettid(),
                 "replicas are bound to the thread that starts them, which must be the main one");
  return Supervisor(identity, clock, options).Run();
}

}  // namespace lockstep::train
