// Whole pods as processes: the supervisor is killed, its replicas are killed, nothing is left.
#include "trainer/supervisor/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "api/proto/rendezvous.grpc.pb.h"
#include "api/proto/trainer_status.grpc.pb.h"
#include "api/v1/names.h"
#include "api/v1/variants.h"
#include "base/descriptor.h"
#include "base/launch.h"
#include "base/listener.h"
#include "tests/support/eventually.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_directory.h"
#include "tests/support/time_limit.h"
#include "tests/trainer/identity/identities.h"
#include "trainer/rendezvous/rendezvous_service.h"
#include "trainer/supervisor/metrics_pipe.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::FreePort;
using ::testing::HasSubstr;

constexpr auto kPatience = 20s;

using Settings = std::map<std::string, std::string>;  // environment variables

// Never to a pid of 0 or -1, which stand for many processes.
void Send(pid_t pid, int signal) {
  ASSERT_GT(pid, 0) << "the process never told its pid";
  kill(pid, signal);
}

struct Joined {
  pid_t pid = -1;
  int rank = -1, generation = -1;
};

// A pod of the test program and the pipe on which all its processes tell what happens.
class Pod {
 public:
  explicit Pod(const Settings& env) {
    Pipe events = *MakePipe();
    events_ = std::make_unique<MetricsPipeReader>(std::move(events.read));
    LaunchSpec spec;
    spec.argv = {SUPERVISOR_TEST_POD, "supervisor"};
    spec.env = CurrentEnvironment();
    for (const auto& [name, value] : env) spec.env[name] = value;
    spec.env[api::kEnvConfig] = api::TrainingSpecToJson(lockstep::testing::MnistTraining()).dump();
    spec.env["TEST_EVENTS_FD"] = std::to_string(events.write.fd());
    spec.fds = {events.write.fd()};
    spec.dies_with_thread = true;
    const auto pid = Launch(spec);
    if (pid.ok()) pid_ = *pid;
    EXPECT_TRUE(pid.ok()) << pid.status();
  }
  ~Pod() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) WaitFor(pid_);
  }
  Pod(const Pod&) = delete;
  Pod& operator=(const Pod&) = delete;

  void Signal(int signal) { Send(pid_, signal); }

  // The next event that starts with `verb`, without it; absent if all processes are gone.
  std::optional<std::string> Next(const std::string& verb) {
    while (true) {
      while (!lines_.empty()) {
        const std::string line = lines_.front();
        lines_.pop_front();
        if (line.starts_with(verb + " ")) return line.substr(verb.size() + 1);
      }
      if (!events_->open()) return std::nullopt;
      pollfd fd{events_->fd(), POLLIN, 0};
      const int patience_ms = static_cast<int>(
          std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count());
      if (poll(&fd, 1, patience_ms) == 0) {
        ADD_FAILURE() << "nothing happened, expected: " << verb;
        return std::nullopt;
      }
      for (std::string& line : events_->Lines()) lines_.push_back(std::move(line));
    }
  }
  pid_t NextStarted() {
    const auto event = Next("started");
    return event ? std::stoi(*event) : -1;
  }
  Joined NextJoined() {
    Joined joined;
    std::istringstream(Next("joined").value_or("")) >> joined.pid >> joined.rank >>
        joined.generation;
    return joined;
  }
  // True when every process that this pod ever started is gone.
  bool LeavesNothing() { return !Next("nothing of this name").has_value() && !events_->open(); }

  int Wait() { return ExitCodeOf(WaitFor(std::exchange(pid_, -1))); }

 private:
  pid_t pid_ = -1;
  std::unique_ptr<MetricsPipeReader> events_;
  std::deque<std::string> lines_;
};

std::string TfConfig(int index, const std::vector<std::string>& workers) {
  return nlohmann::json{{"cluster", {{"worker", workers}}},
                        {"task", {{"type", "worker"}, {"index", index}}}}
      .dump();
}

class TwoPods {
 public:
  std::unique_ptr<Pod> Start(int index) const {
    return std::make_unique<Pod>(Settings{{api::kEnvTfConfig, TfConfig(index, workers_)}});
  }
  const std::vector<std::string>& workers() const { return workers_; }

 private:
  const std::vector<std::string> workers_ = {fmt::format("127.0.0.1:{}", FreePort()),
                                             "127.0.0.2:1"};
};

// The shortest time from the kill of a replica to its successor's first word, of the restarts that
// a pod's budget allows.
Duration FastestRestart() {
  Pod pod(Settings{{api::kEnvProcessesPerPod, "2"}});
  pod.NextStarted();
  pod.NextStarted();
  Joined victim = pod.NextJoined();
  EXPECT_EQ(victim.generation, 1);
  pod.NextJoined();
  Duration fastest = Duration::max();
  for (int generation = 2; generation <= 4; ++generation) {
    const auto start = std::chrono::steady_clock::now();
    Send(victim.pid, SIGKILL);
    const pid_t successor = pod.NextStarted();
    fastest = std::min<Duration>(fastest, std::chrono::steady_clock::now() - start);
    EXPECT_NE(successor, victim.pid);
    victim = pod.NextJoined();  // the survivor and the successor together
    EXPECT_EQ(victim.generation, generation);
    EXPECT_EQ(pod.NextJoined().generation, generation);
  }
  return fastest;
}

TEST(SupervisorTest, AKilledReplicaIsStartedAgainWithin200Milliseconds) {
  const Duration limit = lockstep::testing::TimeLimit(200ms);
  Duration fastest =
      Duration::max();  // of ten pods: a machine with other work slows down single ones
  for (int i = 0; i < 10 && fastest >= limit && !::testing::Test::HasFailure(); ++i) {
    fastest = std::min(fastest, FastestRestart());
  }
  EXPECT_LT(fastest, limit);
}

// Not dated: a clock that is set back would make the later of two the earlier.
TEST(SupervisorTest, ProcessesOfOnePlaceAreNumbered) {
  Pod pod(Settings{});
  for (int number = 1; number <= 3; ++number) {
    std::istringstream started(pod.Next("started").value_or(""));
    pid_t pid = -1;
    int local_rank = -1, found = -1;
    started >> pid >> local_rank >> found;
    EXPECT_EQ(found, number);
    Send(pid, SIGKILL);
  }
}

TEST(SupervisorTest, AllReplicasDoneIsZeroAndNothingIsLeft) {
  Pod pod(Settings{{api::kEnvProcessesPerPod, "2"}});
  for (int i = 0; i < 2; ++i) Send(pod.NextJoined().pid, SIGUSR1);
  EXPECT_EQ(pod.Wait(), 0);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, KillingTheSupervisorLeavesNoReplicaBehind) {
  Pod pod(Settings{{api::kEnvProcessesPerPod, "3"}});
  for (int i = 0; i < 3; ++i) pod.NextJoined();
  pod.Signal(SIGKILL);
  EXPECT_EQ(pod.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, APermanentExitCodeIsThePodsAndStopsTheOthers) {
  Pod pod(Settings{{api::kEnvProcessesPerPod, "2"}, {"TEST_REPLICA", "11"}});
  EXPECT_EQ(pod.Wait(), 11);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, ARetryableExitCodeIsRetriedUntilTheBudgetIsSpent) {
  Pod pod(Settings{{"TEST_REPLICA", "210"}});
  EXPECT_EQ(pod.Wait(), 210);
  int starts = 0;
  while (pod.Next("started")) ++starts;
  EXPECT_EQ(starts, 4);  // the first and a budget of three
}

TEST(SupervisorTest, AGpuThatIsGoneEndsThePodAtOnceSinceOnlyANewOneMayHaveIt) {
  Pod pod(Settings{{"TEST_REPLICA", std::to_string(api::kExitGpuGone)}});
  EXPECT_EQ(pod.Wait(), api::kExitGpuGone);
  int starts = 0;
  while (pod.Next("started")) ++starts;
  EXPECT_EQ(starts, 1);
}

TEST(SupervisorTest, GpusSumReproduciblyUnlessThePodSaysHow) {
  const auto sums = [](Settings settings) {
    settings["TEST_REPLICA"] = "tells how NCCL sums";
    return Pod(settings).Next("sums");
  };
  EXPECT_EQ(sums({{api::kEnvGpus, "2"}}), "0");
  EXPECT_EQ(sums({{api::kEnvGpus, "2"}, {"NCCL_NVLS_ENABLE", "1"}}), "1");
  EXPECT_EQ(sums({{api::kEnvGpus, "2"}, {"NCCL_ALGO", "NVLS"}}), "as it likes");
  EXPECT_EQ(sums({}), "as it likes");
}

TEST(SupervisorTest, AStepOfProgressMakesTheBudgetWholeAgain) {
  Pod pod(Settings{{"TEST_REPLICA", "progress"}});
  for (int i = 0; i < 8; ++i) EXPECT_GT(pod.NextStarted(), 0) << i;
}

TEST(SupervisorTest, AStepOfAnotherProcessLeavesTheBudgetAsItIs) {
  Pod pod(Settings{{"TEST_REPLICA", "others' progress"}});
  for (int i = 0; i < 4; ++i) EXPECT_GT(pod.NextStarted(), 0) << i;
  EXPECT_EQ(pod.NextStarted(), -1) << "the budget is three restarts";
}

TEST(SupervisorTest, RestartsAndMetricsReachTheMetricsServer) {
  Pod pod(Settings{{"TEST_REPLICA", "progress"}});
  EXPECT_EQ(pod.Next("metrics"), "0");
  EXPECT_EQ(pod.Next("restart"), "0");
}

Settings ParameterServerPod(const std::string& mode) {
  const nlohmann::json config{
      {"cluster", {{"worker", {"127.0.0.1:1"}}, {"ps", {"127.0.0.2:1", "127.0.0.3:1"}}}},
      {"task", {{"type", "ps"}, {"index", 1}}}};
  return {{api::kEnvTfConfig, config.dump()},
          {api::kEnvStrategy, R"({"type":"ParameterServer"})"},
          {"TEST_REPLICA", mode}};
}

TEST(SupervisorTest, AParameterServersMetricsReachTheMetricsServer) {
  Pod pod(ParameterServerPod("server"));
  EXPECT_EQ(pod.Next("server"), "1: 5 updates");
  EXPECT_EQ(pod.Wait(), 0);
}

TEST(SupervisorTest, AStepOfAParameterServerMakesItsBudgetWholeAgain) {
  Pod pod(ParameterServerPod("server that crashes"));
  for (int i = 0; i < 8; ++i) EXPECT_GT(pod.NextStarted(), 0) << i;
}

Settings EvaluatorPod(const std::string& mode, int port = FreePort()) {
  const nlohmann::json config{
      {"cluster",
       {{"worker", {"127.0.0.1:1"}}, {"evaluator", {fmt::format("127.0.0.1:{}", port)}}}},
      {"task", {{"type", "evaluator"}, {"index", 0}}}};
  return {{api::kEnvTfConfig, config.dump()}, {"TEST_REPLICA", mode}};
}

TEST(SupervisorTest, AnEvaluatorsMetricsReachTheMetricsServer) {
  Pod pod(EvaluatorPod("evaluator"));
  EXPECT_EQ(pod.Next("evaluator"), "step 5");
  EXPECT_EQ(pod.Wait(), 0);
}

// After training, the operator has nobody else to ask.
TEST(SupervisorTest, AnEvaluatorsPodTellsTheOperatorThatItEvaluates) {
  const int port = FreePort();
  Pod pod(EvaluatorPod("evaluator at work", port));
  EXPECT_EQ(pod.Next("evaluator"), "step 5");  // told to the metrics server last
  const auto stub = proto::TrainerStatus::NewStub(
      grpc::CreateChannel(fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  proto::GetStatusResponse said;
  const grpc::Status asked = stub->GetStatus(&context, {}, &said);
  EXPECT_TRUE(asked.ok()) << asked.error_message();
  EXPECT_EQ(said.evaluated_batches(), 17);
}

TEST(SupervisorTest, AnEvaluatorWhosePortIsTakenEvaluatesAllTheSame) {
  const Listener taken = *ListenAt("127.0.0.1:0", 1);
  Pod pod(EvaluatorPod("evaluator", taken.port));
  EXPECT_EQ(pod.Next("evaluator"), "step 5");
  EXPECT_EQ(pod.Wait(), 0);
}

TEST(SupervisorTest, AnEvaluationMakesAnEvaluatorsBudgetWholeAgain) {
  Pod pod(EvaluatorPod("evaluator that crashes"));
  for (int i = 0; i < 8; ++i) EXPECT_GT(pod.NextStarted(), 0) << i;
}

// Or nobody could tell by its metrics that it starts again and again.
TEST(SupervisorTest, AReplicaThatDiesBeforeItCanSayAnythingIsShownUnderItsRank) {
  Pod pod(Settings{{api::kEnvTfConfig, TfConfig(1, {"127.0.0.1:1", "127.0.0.1:2"})},
                   {api::kEnvProcessesPerPod, "2"},
                   {"TEST_REPLICA", "11"}});
  EXPECT_EQ(pod.Next("shown"), "0: rank 2 of 4");
  EXPECT_EQ(pod.Next("shown"), "1: rank 3 of 4");
  EXPECT_EQ(pod.Wait(), 11);
}

TEST(SupervisorTest, TheLeadingPodShowsWhomItsRendezvousRefuses) {
  Pod leader(Settings{{"TEST_REPLICA", "progress"}});
  EXPECT_EQ(leader.Next("refusals"), "0");
}

TEST(SupervisorTest, OutsideTheInPlaceScopeAReplicasEndIsThePods) {
  Pod pod(Settings{{"TEST_IN_PLACE", "0"}});
  Send(pod.NextJoined().pid, SIGKILL);
  EXPECT_EQ(pod.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, SigtermLetsTheReplicasSaveAndIsPreempted) {
  Pod pod(Settings{{api::kEnvProcessesPerPod, "2"}});
  for (int i = 0; i < 2; ++i) pod.NextJoined();
  pod.Signal(SIGTERM);
  EXPECT_EQ(pod.Wait(), api::kExitPreempted);
  EXPECT_TRUE(pod.LeavesNothing());
}

// True once the leading pod at the address says that rank 0 saves.
bool SaysThatItSaves(const std::string& address) {
  const auto status = proto::TrainerStatus::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  return lockstep::testing::Eventually([&] {
    grpc::ClientContext context;
    proto::GetStatusResponse said;
    return status->GetStatus(&context, {}, &said).ok() &&
           said.activity() == proto::ACTIVITY_CHECKPOINT;
  });
}

// Its node's kubelet has died, say: the pod was given up, and nobody tells it so.
TEST(SupervisorTest, ALeaderWhoseNameALaterPodHasSavesAndLeaves) {
  const TempDirectory folder;
  const std::string file = folder.At("address");
  std::ofstream(file) << "127.0.0.1";
  Pod pod(Settings{{api::kEnvTfConfig, TfConfig(0, {fmt::format("127.0.0.1:{}", FreePort())})},
                   {api::kEnvPodIp, "127.0.0.1"},
                   {"TEST_ADDRESS_FILE", file}});
  pod.NextJoined();
  EXPECT_EQ(pod.Next("resolved"), "127.0.0.1 127.0.0.1");
  std::ofstream(file) << "127.0.0.9";
  EXPECT_EQ(pod.Wait(), api::kExitPreempted);
  EXPECT_TRUE(pod.LeavesNothing());
}

// Nobody kills it, so the grace period does not end its save.
TEST(SupervisorTest, ALeaderWhoseNameALaterPodHasMaySaveForLonger) {
  const TempDirectory folder;
  const std::string file = folder.At("address");
  const std::string address = fmt::format("127.0.0.1:{}", FreePort());
  std::ofstream(file) << "127.0.0.1";
  Pod pod(Settings{{api::kEnvTfConfig, TfConfig(0, {address})},
                   {api::kEnvPodIp, "127.0.0.1"},
                   {"TEST_REPLICA", "leader saves for 1 s"},
                   {"TEST_GRACE_MS", "50"},
                   {"TEST_ADDRESS_FILE", file}});
  pod.NextJoined();
  ASSERT_TRUE(SaysThatItSaves(address));
  EXPECT_EQ(pod.Next("resolved"), "127.0.0.1 127.0.0.1");
  std::ofstream(file) << "127.0.0.9";
  EXPECT_TRUE(pod.Next("saved").has_value()) << "it was killed before";
  EXPECT_EQ(pod.Wait(), api::kExitPreempted);
}

TEST(SupervisorTest, SigtermReachesAReplicaThatWaitsForItsPeers) {
  const TwoPods pods;
  const auto leader = pods.Start(0);
  leader->NextStarted();
  leader->Signal(SIGTERM);
  EXPECT_EQ(leader->Wait(), api::kExitPreempted);
}

const Settings kTwoIndependent = {
    {api::kEnvStrategy, R"({"type":"Independent","processesPerPod":2})"}};

TEST(SupervisorTest, IndependentReplicasLeaveTheirResults) {
  const std::string path = ::testing::TempDir() + "/results-" + std::to_string(getpid());
  Settings settings = kTwoIndependent;
  settings["TEST_REPLICA"] = "result";
  settings["TEST_MESSAGE"] = path;
  settings[api::kEnvTfConfig] = TfConfig(1, {"127.0.0.1:1", "127.0.0.1:2"});
  Pod pod(settings);
  EXPECT_EQ(pod.Next("shown 1:"), "rank 3 of 1");
  EXPECT_EQ(pod.Wait(), 0);
  std::ostringstream message;
  message << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  const auto results = api::ResultsFromMessage(message.str());
  ASSERT_EQ(results.size(), 2U) << message.str();
  EXPECT_EQ(results[0].index, 2);
  EXPECT_EQ(results[0].step, 7);
  EXPECT_EQ(results[1].index, 3);
  EXPECT_EQ(results[1].step, 8);
}

TEST(SupervisorTest, AReplicaThatIsAskedToStopInItsFirstMomentsStopsByItself) {
  Pod pod(Settings{{"TEST_REPLICA", "slow to take signals up"}});
  ASSERT_TRUE(pod.Next("began").has_value());
  pod.Signal(SIGTERM);
  EXPECT_EQ(pod.Wait(), api::kExitPreempted);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, AnIndependentReplicaThatKeepsCrashingIsGivenUpThoughAnotherGoesOn) {
  Settings settings = kTwoIndependent;
  settings["TEST_REPLICA"] = "first goes on, second crashes";
  Pod pod(settings);
  EXPECT_EQ(pod.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, AnotherReplicasFailureLeavesTheWholeGracePeriodToSave) {
  Settings settings = kTwoIndependent;
  settings["TEST_REPLICA"] = "first fails, second saves for a second";
  settings["TEST_GRACE_MS"] = "60000";
  Pod pod(settings);
  std::map<int, pid_t> pids;  // by local rank, of processes that are ready for signals
  for (int i = 0; i < 2; ++i) {
    pid_t pid = -1;
    int local_rank = -1;
    std::istringstream(pod.Next("started").value_or("")) >> pid >> local_rank;
    pids[local_rank] = pid;
  }
  Send(pids[0], SIGUSR1);
  EXPECT_TRUE(pod.Next("saved").has_value());
  EXPECT_EQ(pod.Wait(), api::kExitBadConfig);
}

// Rank 0 and another process in one pod with a short grace period. Rank 0 saves, or does not.
class LeadingPodTest : public ::testing::Test {
 protected:
  // Returns once both are in the group and, if rank 0 saves, the supervisor knows that.
  void Start(const std::string& mode, const std::string& grace_ms = "50") {
    pod_ = std::make_unique<Pod>(Settings{{api::kEnvTfConfig, TfConfig(0, {address_})},
                                          {api::kEnvProcessesPerPod, "2"},
                                          {"TEST_REPLICA", mode},
                                          {"TEST_GRACE_MS", grace_ms}});
    for (int i = 0; i < 2; ++i) {
      const Joined joined = pod_->NextJoined();
      if (joined.rank == 1) other_ = joined.pid;
    }
    if (mode.find("saves") == std::string::npos) return;
    EXPECT_TRUE(SaysThatItSaves(address_));
  }
  void FailTheOther() {
    Send(other_, SIGUSR1);
    EXPECT_TRUE(pod_->Next("told to stop").has_value());
  }

  const std::string address_ = fmt::format("127.0.0.1:{}", FreePort());
  std::unique_ptr<Pod> pod_;
  pid_t other_ = -1;
};

TEST_F(LeadingPodTest, ASaveMayTakeLongerThanTheGracePeriodIfNobodyAsksThePodToStop) {
  Start("leader saves for 1 s");
  FailTheOther();
  EXPECT_TRUE(pod_->Next("saved").has_value());
  EXPECT_EQ(pod_->Wait(), api::kExitBadData);
}

TEST_F(LeadingPodTest, ASaveHasTheGracePeriodOnceSomebodyAsksThePodToStop) {
  Start("leader saves for ever");
  FailTheOther();
  pod_->Signal(SIGTERM);
  ASSERT_TRUE(pod_->LeavesNothing());
  EXPECT_EQ(pod_->Wait(), api::kExitBadData);
}

TEST_F(LeadingPodTest, ALeaderThatDoesNotSaveIsKilledAfterTheGracePeriod) {
  Start("leader hangs", "2000");  // in which the other one says that it was told to stop
  FailTheOther();
  ASSERT_TRUE(pod_->LeavesNothing());
  EXPECT_EQ(pod_->Wait(), api::kExitBadData);
}

// As for lack of memory or processes.
TEST(SupervisorTest, ARestartThatFailsLeavesTheOthersTheirGracePeriod) {
  const TempDirectory folder;
  std::filesystem::create_symlink(SUPERVISOR_TEST_POD, folder.At("replica"));
  Pod pod(Settings{{api::kEnvProcessesPerPod, "2"},
                   {"TEST_REPLICA", "first fails, second saves"},
                   {"TEST_COMMAND", folder.At("replica")}});
  pid_t first = -1;
  for (int i = 0; i < 2; ++i) {
    std::istringstream started(pod.Next("started").value_or(""));
    pid_t pid = -1;
    int local_rank = -1;
    started >> pid >> local_rank;
    if (local_rank == 0) first = pid;
  }
  std::filesystem::remove(folder.At("replica"));
  Send(first, SIGKILL);
  EXPECT_TRUE(pod.Next("saved").has_value());
  EXPECT_EQ(pod.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, ADeafReplicaIsKilledAfterTheGracePeriod) {
  Pod pod(Settings{{"TEST_REPLICA", "deaf"}, {"TEST_GRACE_MS", "50"}});
  pod.Next("deaf");
  pod.Signal(SIGTERM);
  EXPECT_EQ(pod.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(pod.LeavesNothing());
}

TEST(SupervisorTest, AReplicaThatCannotBeExecutedIsNamed) {
  Pod pod(Settings{{"TEST_COMMAND", "/no/such/program"}});
  EXPECT_THAT(pod.Next("error").value_or(""), HasSubstr("cannot execute /no/such/program"));
  EXPECT_EQ(pod.Wait(), 10);
}

TEST(SupervisorTest, APodWhoseMetricsPortIsTakenTrainsAllTheSame) {
  Pod pod(Settings{{"TEST_METRICS_PORT", "taken"}});
  Send(pod.NextJoined().pid, SIGUSR1);
  EXPECT_EQ(pod.Wait(), 0);
}

TEST(SupervisorTest, ATakenPortIsNamed) {
  const TwoPods pods;
  const auto leader = pods.Start(0);
  leader->NextStarted();
  const auto second = pods.Start(0);
  EXPECT_THAT(second->Next("error").value_or(""), HasSubstr("Address already in use"));
  EXPECT_EQ(second->Wait(), 10);
}

TEST(SupervisorTest, TwoPodsTrainTogetherAndTheLeaderIsTheLastToGo) {
  const TwoPods pods;
  const auto follower = pods.Start(1);
  const auto leader = pods.Start(0);
  const Joined first = leader->NextJoined(), second = follower->NextJoined();
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(second.rank, 1);
  Send(first.pid, SIGUSR1);
  Send(second.pid, SIGUSR1);
  EXPECT_EQ(follower->Wait(), 0);
  EXPECT_EQ(leader->Wait(), 0);
}

// Worker 1 as a stream of the test's own, which does only what it is told.
class HandmadeMember {
 public:
  explicit HandmadeMember(const TwoPods& pods)
      : stub_(proto::Rendezvous::NewStub(
            grpc::CreateChannel(pods.workers()[0], grpc::InsecureChannelCredentials()))),
        stream_(stub_->Session(&context_)) {
    Settings env = {
        {api::kEnvTfConfig, TfConfig(1, pods.workers())},
        {api::kEnvConfig, api::TrainingSpecToJson(lockstep::testing::MnistTraining()).dump()}};
    const auto identity = ReadIdentity([&](const std::string& name) {
      return env.contains(name) ? std::optional(env[name]) : std::nullopt;
    });
    proto::ReplicaMessage message;
    proto::Join& join = *message.mutable_join();
    join.set_job(identity->job);
    join.set_cluster_hash(identity->ClusterHash());
    join.set_role("worker");
    join.set_index(1);
    join.set_step(-1);
    join.set_fingerprint("layout");
    join.set_incarnation("handmade");
    stream_->Write(message);
  }
  // Trains nothing, and returns once all members have been released.
  bool Finish() {
    proto::CoordinatorMessage heard;
    while (!heard.has_membership() && stream_->Read(&heard)) {
    }
    proto::ReplicaMessage message;
    message.mutable_finished()->set_generation(heard.membership().generation());
    stream_->Write(message);
    while (!heard.has_released() && stream_->Read(&heard)) {
    }
    return heard.has_released();
  }
  void HangUp() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<proto::Rendezvous::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<proto::ReplicaMessage, proto::CoordinatorMessage>>
      stream_;
};

// Its node may be drained just then, and the pod has done all that it had to.
TEST(SupervisorTest, ALeaderThatIsDoneStaysDoneIfItIsAskedToStop) {
  const TwoPods pods;
  const auto leader = pods.Start(0);
  leader->NextStarted();  // it listens
  HandmadeMember member(pods);
  const pid_t replica = leader->NextJoined().pid;
  Send(replica, SIGUSR1);
  EXPECT_TRUE(member.Finish());
  EXPECT_TRUE(lockstep::testing::Eventually([&] { return kill(replica, 0) != 0; }));
  leader->Signal(SIGTERM);  // while it waits for the member to hang up
  member.HangUp();
  EXPECT_EQ(leader->Wait(), 0);
}

TEST(SupervisorTest, AWholeLeadingPodIsKilledAndItsSuccessorMeetsTheSurvivor) {
  const TwoPods pods;
  const auto follower = pods.Start(1);
  auto leader = pods.Start(0);
  leader->NextJoined();
  const Joined before = follower->NextJoined();
  leader->Signal(SIGKILL);
  EXPECT_EQ(leader->Wait(), 128 + SIGKILL);
  EXPECT_TRUE(leader->LeavesNothing());
  leader = pods.Start(0);
  const Joined after = follower->NextJoined();
  EXPECT_EQ(after.pid, before.pid);  // no healthy process restarts
  EXPECT_EQ(after.generation, before.generation + 1);
  Send(leader->NextJoined().pid, SIGUSR1);
  Send(after.pid, SIGUSR1);
  EXPECT_EQ(follower->Wait(), 0);
  EXPECT_EQ(leader->Wait(), 0);
}

}  // namespace
}  // namespace lockstep::train
