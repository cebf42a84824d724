// A pod for supervisor_test: `supervisor_test_pod supervisor` runs replicas of `supervisor_test_pod
// replica`. Both tell what happens to them, a line each, on the pipe that the test gave them.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "base/stop_signal.h"
#include "trainer/identity/identity.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/supervisor/metrics_pipe.h"
#include "trainer/supervisor/supervisor.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

std::string Setting(const char* name, const char* fallback) {
  return ProcessEnv(name).value_or(fallback);
}

void Tell(const std::string& event) {
  const std::string line = event + "\n";
  const int fd = std::atoi(Setting("TEST_EVENTS_FD", "2").c_str());
  if (write(fd, line.data(), line.size()) < 0) std::abort();
}

std::atomic<bool> g_finish{false};

// Waits in the middle of a generation until it ends (true), SIGUSR1 or SIGTERM comes.
bool Train(Rendezvous& rendezvous, const std::atomic<bool>& ended) {
  while (!ended && !g_finish && !rendezvous.StopRequested()) std::this_thread::sleep_for(2ms);
  return ended;
}

int RunMember(const Identity& identity) {
  const SystemClock clock;
  std::atomic<bool> ended{false};
  const auto rendezvous = MakeRendezvousClient(identity, clock);
  rendezvous->OnGenerationEnd([&](std::uint64_t, const std::string&) { ended = true; });
  while (true) {
    ended = false;
    const auto membership = rendezvous->Join(-1, "layout");
    if (!membership.ok()) {
      return membership.status().code() == absl::StatusCode::kCancelled ? 200 : 211;
    }
    Tell(fmt::format("joined {} {} {}", getpid(), membership->rank, membership->generation));
    if (Train(*rendezvous, ended)) continue;
    if (rendezvous->StopRequested()) return 200;
    if (rendezvous->Finish().ok()) return 0;
  }
}

// Rank 0 of a group whose other processes fail with 11 once they are told to finish. After SIGTERM
// it is busy for `busy`, and says all the time that it saves, if it does.
int RunLeader(const Identity& identity, bool saves, Duration busy) {
  const SystemClock clock;
  const auto rendezvous = MakeRendezvousClient(identity, clock);
  const auto membership = rendezvous->Join(-1, "layout");
  if (!membership.ok()) return 211;
  if (saves && membership->rank == 0) rendezvous->SetActivity(api::Activity::kCheckpoint);
  Tell(fmt::format("joined {} {} {}", getpid(), membership->rank, membership->generation));
  while (!g_finish && !rendezvous->StopRequested()) std::this_thread::sleep_for(2ms);
  if (membership->rank != 0) return 11;
  Tell(fmt::format("told to stop {}", getpid()));
  std::this_thread::sleep_for(busy);
  Tell(fmt::format("saved {}", getpid()));
  return 200;
}

int RunReplica() {
  if (Setting("TEST_REPLICA", "") == "slow to take signals up") {
    Tell(fmt::format("began {}", getpid()));
    std::this_thread::sleep_for(500ms);
    InstallStopSignal();
    while (!StopSignalled()) std::this_thread::sleep_for(2ms);
    return 200;
  }
  InstallStopSignal();
  std::signal(SIGUSR1, [](int) { g_finish = true; });
  const auto identity = ReadIdentity(&ProcessEnv);
  if (!identity.ok()) return 10;
  Tell(fmt::format("started {} {} {}", getpid(), identity->local_rank,
                   identity->incarnation.process_number));
  const std::string mode = Setting("TEST_REPLICA", "member");
  if (mode == "member") return RunMember(*identity);
  if (mode == "leader saves for 1 s") return RunLeader(*identity, true, 1s);
  if (mode == "leader saves for ever") return RunLeader(*identity, true, 1h);
  if (mode == "leader hangs") return RunLeader(*identity, false, 1h);
  if (mode == "tells how NCCL sums") {
    Tell(fmt::format("sums {}", Setting("NCCL_NVLS_ENABLE", "as it likes")));
    return 0;
  }
  if (mode == "progress") {  // a step, then a crash, at first
    const std::string step =
        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    MetricsPipeWriter(&ProcessEnv).Write(step);
    raise(SIGKILL);
  }
  if (mode == "others' progress") {  // a step of another process, then a crash
    const std::string step =
        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    MetricsPipeWriter(&ProcessEnv).Write(step + " of others");
    raise(SIGKILL);
  }
  if (mode == "result") {
    MetricsPipeWriter(&ProcessEnv).Write(std::to_string(7 + identity->local_rank));
    return 0;
  }
  if (mode == "server") {
    MetricsPipeWriter metrics(&ProcessEnv);
    metrics.Write("neither a replica's line nor a server's");
    metrics.Write(EncodeServerMetrics({.server = 1, .updates = 5}));
    return 0;
  }
  if (mode == "evaluator") {
    MetricsPipeWriter metrics(&ProcessEnv);
    metrics.Write("neither a replica's line nor an Evaluator's");
    metrics.Write(EncodeEvaluatorMetrics({.step = 5}));
    return 0;
  }
  if (mode == "evaluator at work") {
    MetricsPipeWriter(&ProcessEnv).Write(EncodeEvaluatorMetrics({.step = 5, .batches = 17}));
    while (!StopSignalled()) std::this_thread::sleep_for(2ms);
    return 0;
  }
  if (mode == "evaluator that crashes") {  // an evaluation, then a crash
    const std::int64_t step = std::chrono::steady_clock::now().time_since_epoch().count();
    MetricsPipeWriter(&ProcessEnv).Write(EncodeEvaluatorMetrics({.step = step}));
    raise(SIGKILL);
  }
  if (mode == "server that crashes") {  // a step, then a crash
    const std::int64_t step = std::chrono::steady_clock::now().time_since_epoch().count();
    MetricsPipeWriter(&ProcessEnv).Write(EncodeServerMetrics({.server = 1, .step = step}));
    raise(SIGKILL);
  }
  if (mode == "first goes on, second crashes") {
    if (identity->local_rank == 1) raise(SIGKILL);
    MetricsPipeWriter metrics(&ProcessEnv);
    for (int step = 1; !StopSignalled(); ++step) {
      metrics.Write(std::to_string(step));
      std::this_thread::sleep_for(1ms);
    }
    return 200;
  }
  if (mode.starts_with("first fails, second saves")) {
    if (identity->local_rank == 0) {
      while (!g_finish) std::this_thread::sleep_for(2ms);
      return 10;
    }
    while (!StopSignalled()) std::this_thread::sleep_for(2ms);
    if (mode.ends_with(" for a second")) std::this_thread::sleep_for(1s);  // a slow volume
    Tell(fmt::format("saved {}", getpid()));
    return 200;
  }
  if (mode == "deaf") {
    std::signal(SIGTERM, SIG_IGN);
    Tell(fmt::format("deaf {}", getpid()));
    while (true) pause();
  }
  return std::atoi(mode.c_str());  // an exit code
}

class TellingMetrics final : public MetricsServer {
 public:
  int port() const override { return 0; }
  void Update(int local_rank, const ReplicaMetrics& metrics) override {
    if (metrics.step > 0) {
      Tell(fmt::format("metrics {}", local_rank));
    } else {
      Tell(fmt::format("shown {}: rank {} of {}", local_rank, metrics.rank, metrics.world));
    }
  }
  void UpdateServer(const ServerMetrics& metrics) override {
    Tell(fmt::format("server {}: {} updates", metrics.server, metrics.updates));
  }
  void UpdateEvaluator(const EvaluatorMetrics& metrics) override {
    Tell(fmt::format("evaluator step {}", metrics.step));
  }
  void CountReplicaRestart(int local_rank) override { Tell(fmt::format("restart {}", local_rank)); }
  void ShowRefusals(std::function<std::int64_t()> refusals) override {
    Tell(fmt::format("refusals {}", refusals()));
  }
};

int RunPod() {
  const auto identity = ReadIdentity(&ProcessEnv);
  if (!identity.ok()) return 10;
  SupervisorOptions options;
  options.replica_command = {Setting("TEST_COMMAND", "/proc/self/exe"), "replica"};
  options.restart_in_place = Setting("TEST_IN_PLACE", "1") == "1";
  options.restart_budget.restarts = 3;
  options.restart_budget.first_delay = 10ms;
  options.stop_grace =
      std::chrono::milliseconds(std::atoi(Setting("TEST_GRACE_MS", "10000").c_str()));
  options.start_metrics = []() -> absl::StatusOr<std::unique_ptr<MetricsServer>> {
    if (Setting("TEST_METRICS_PORT", "") == "taken") return absl::UnavailableError("it is taken");
    return std::make_unique<TellingMetrics>();
  };
  options.decode_metrics = [](const std::string& line) -> absl::StatusOr<ReplicaMetrics> {
    ReplicaMetrics metrics;
    metrics.step = std::stoll(line);
    metrics.steps_total = line.ends_with("of others") ? 0 : 1;
    return metrics;
  };
  options.decode_server_metrics = DecodeServerMetrics;
  options.decode_evaluator_metrics = DecodeEvaluatorMetrics;
  options.termination_message_path = Setting("TEST_MESSAGE", "");
  if (const std::string file = Setting("TEST_ADDRESS_FILE", ""); !file.empty()) {
    options.successor_watch = {.addresses_of =
                                   [file](const std::string& host) {
                                     std::string address;
                                     std::ifstream(file) >> address;
                                     Tell(fmt::format("resolved {} {}", host, address));
                                     return address.empty() ? std::set<std::string>{}
                                                            : std::set<std::string>{address};
                                   },
                               .every = 10ms,
                               .after = 50ms};
  }
  const SystemClock clock;
  const auto code = RunSupervisor(*identity, clock, options);
  if (code.ok()) return *code;
  Tell(fmt::format("error {}", std::string(code.status().message())));
  return 10;
}

}  // namespace
}  // namespace lockstep::train

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return std::string(argv[1]) == "replica" ? lockstep::train::RunReplica()
                                           : lockstep::train::RunPod();
}
