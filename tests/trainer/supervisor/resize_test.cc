// Groups of real trainers that change their number of workers while they train, as an operator
// that polls the leading pod asks them to.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/proto/trainer_status.grpc.pb.h"
#include "api/v1/names.h"
#include "base/launch.h"
#include "tests/support/folders.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_directory.h"
#include "tests/support/time_limit.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Records = std::vector<json>;

// As Eventually, for several processes that start on a machine with other work.
bool Soon(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + testing::Slowed(60s);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

json Training(const std::string& checkpoints) {
  return {
      {"model",
       {{"layers",
         {{{"type", "Flatten"}},
          {{"type", "Dense"}, {"units", 32}, {"activation", "relu"}},
          {{"type", "Dense"}, {"units", 10}}}}}},
      {"dataset",
       {{"format", "synthetic"}, {"synthetic", {{"trainExamples", 600}, {"testExamples", 60}}}}},
      {"batchSize", {{"global", 60}}},
      {"epochs", 100'000},  // the test ends first
      // Its loss does not rise again, however many steps a fast machine makes.
      {"optimizer", {{"name", "SGD"}, {"learningRate", 0.01}}},
      {"checkpoint", {{"directory", checkpoints}, {"everySteps", 50}, {"keep", 3}}}};
}

// Whether the group has its state and trains; small steps save as often as they compute.
bool Trains(const proto::GetStatusResponse& said) {
  return said.activity() == proto::ACTIVITY_STEP || said.activity() == proto::ACTIVITY_CHECKPOINT ||
         said.activity() == proto::ACTIVITY_EVALUATION;
}

// The pods of a job on this machine. Worker i is told of the number of workers that there were
// when it was started.
class Group {
 public:
  Group() {
    for (int i = 0; i < 4; ++i)
      addresses_.push_back(fmt::format("127.0.0.{}:{}", i + 1, testing::FreePort()));
    stub_ = proto::TrainerStatus::NewStub(
        grpc::CreateChannel(addresses_[0], grpc::InsecureChannelCredentials()));
  }
  ~Group() {
    for (const auto& [index, pid] : pods_) {
      kill(-pid, SIGKILL);
      WaitFor(pid);
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void Start(int index, int workers) {
    const std::vector<std::string> known(addresses_.begin(), addresses_.begin() + workers);
    LaunchSpec spec;
    const std::string log = fmt::format("{}/worker-{}.{}.log", folder_, index, starts_++);
    spec.argv = {"/bin/sh", "-c",
                 fmt::format("exec {}/lockstep-trainer >{} 2>&1", LOCKSTEP_BINARY_DIR, log)};
    spec.new_session = true;
    spec.cpus = {index % 2};  // one thread each: the processes of a group wait for each other
    spec.env = CurrentEnvironment();
    spec.env[api::kEnvTfConfig] =
        json{{"cluster", {{"worker", known}}}, {"task", {{"type", "worker"}, {"index", index}}}}
            .dump();
    spec.env[api::kEnvJob] = "resized";
    spec.env[api::kEnvConfig] = Training(folder_ + "/checkpoints").dump();
    spec.env[api::kEnvStrategy] = R"({"type": "MultiWorkerMirrored"})";
    spec.env[api::kEnvPodIp] = fmt::format("127.0.0.{}", index + 1);
    spec.env[api::kEnvRestartScope] = "InPlace";
    spec.env[api::kEnvTerminationMessagePath] = "";
    auto pid = Launch(spec);
    ASSERT_TRUE(pid.ok()) << pid.status();
    pods_[index] = *pid;
  }
  // As the operator deletes a pod.
  int Stop(int index, int signal = SIGTERM) {
    const pid_t pid = pods_.at(index);
    pods_.erase(index);
    kill(signal == SIGKILL ? -pid : pid, signal);
    return ExitCodeOf(WaitFor(pid));
  }
  bool IsRunning(int index) const { return kill(pods_.at(index), 0) == 0; }

  std::optional<proto::GetStatusResponse> Ask(int workers) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 2s);
    proto::GetStatusRequest request;
    request.set_workers(workers);
    proto::GetStatusResponse response;
    if (!stub_->GetStatus(&context, request, &response).ok()) return std::nullopt;
    return response;
  }
  // Asks as often as an operator that is in a hurry.
  bool Follows(int workers) {
    return Soon([&] {
      const auto said = Ask(workers);
      return said && said->workers() == workers;
    });
  }
  bool IsBeyond(std::int64_t step) {
    return Soon([&] {
      const auto said = Ask(0);
      return said && Trains(*said) && said->progress().step() > step;
    });
  }
  std::int64_t Step() {
    const auto said = Ask(0);
    return said ? said->progress().step() : -1;
  }
  // What the processes of all pods have logged, in the order of time.
  Records Said(const std::string& message) const {
    Records records;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      if (file.path().extension() != ".log") continue;
      std::ifstream lines(file.path());
      for (std::string line; std::getline(lines, line);) {
        json record = json::parse(line, nullptr, false);
        if (record.is_object() && record.value("message", "") == message) {
          records.push_back(std::move(record));
        }
      }
    }
    std::ranges::sort(records, {}, [](const json& record) { return record.value("time", ""); });
    return records;
  }
  // The process that the pod's first log, its supervisor's, says it has started last.
  pid_t ReplicaOf(int index) const {
    std::ifstream lines(fmt::format("{}/worker-{}.{}.log", folder_, index, index));
    pid_t pid = -1;
    for (std::string line; std::getline(lines, line);) {
      const json record = json::parse(line, nullptr, false);
      if (record.is_object() && record.value("message", "") == "replica started") {
        pid = record["pid"];
      }
    }
    return pid;
  }
  std::string Checkpoints() const { return folder_ + "/checkpoints"; }
  bool HasSaid(const std::string& message) const {
    return Soon([&] { return !Said(message).empty(); });
  }
  std::string Logs() const {
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      if (file.path().extension() != ".log") continue;
      std::ifstream text(file.path());
      all += "== " + file.path().string() + "\n";
      all.append(std::istreambuf_iterator<char>(text), {});
    }
    return all;
  }

 private:
  const lockstep::TempDirectory holder_;
  const std::string folder_ = holder_.path();
  std::vector<std::string> addresses_;
  std::unique_ptr<proto::TrainerStatus::Stub> stub_;
  std::map<int, pid_t> pods_;
  int starts_ = 0;
};

// What each epoch has ended with; the last record counts if an epoch was repeated.
std::map<std::int64_t, json> Epochs(const Group& group) {
  std::map<std::int64_t, json> epochs;
  for (const json& record : group.Said("epoch done")) epochs[record["epoch"]] = record;
  return epochs;
}

// Asks for another number of workers and returns the time until the group of that size has made
// steps, in which nobody has trained. Expects that it repeats none that it has reported.
Duration Resize(Group& group, int workers) {
  const auto before = group.Ask(0);
  EXPECT_TRUE(before.has_value());
  std::int64_t last = before->progress().step();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Soon([&] {
    const auto said = group.Ask(workers);
    if (said && said->workers() != workers) last = std::max(last, said->progress().step());
    return said && said->workers() == workers;
  })) << group.Logs();
  EXPECT_TRUE(Soon([&] {
    const auto said = group.Ask(workers);
    return said && said->generation() > before->generation() && Trains(*said);
  })) << group.Logs();
  const Duration pause = std::chrono::steady_clock::now() - start;
  const Records restored = group.Said("restored a checkpoint");
  EXPECT_TRUE(!restored.empty() && restored.back()["step"].get<std::int64_t>() >= last)
      << last << "\n"
      << group.Logs();
  std::cout << fmt::format("to {} workers: {:.2f} s\n", workers,
                           std::chrono::duration<double>(pause).count());
  return pause;
}

// The last step of the generation that stopped for the new number, and the first after it.
std::int64_t StepOfStop(const Group& group) {
  const Records stopped = group.Said("the generation has stopped");
  return stopped.empty() ? -1 : stopped.back()["step"].get<std::int64_t>();
}
std::int64_t StepAfterStop(const Group& group) {
  const Records first = group.Said("first step of the generation");
  return first.empty() ? -1 : first.back()["step"].get<std::int64_t>();
}

TEST(ResizeTest, AGroupGrowsAndShrinksWithoutARestartOfASurvivor) {
  Group group;
  for (int i = 0; i < 2; ++i) group.Start(i, 2);
  ASSERT_TRUE(group.IsBeyond(30)) << group.Logs();
  group.Start(2, 3);
  ASSERT_TRUE(group.HasSaid("in the rendezvous: waiting for a place in the group of 2 workers"))
      << group.Logs();
  EXPECT_LT(Resize(group, 3), testing::TimeLimit(5s));
  ASSERT_TRUE(group.IsBeyond(group.Step() + 30)) << group.Logs();
  EXPECT_EQ(StepAfterStop(group), StepOfStop(group) + 1) << group.Logs();
  EXPECT_LT(Resize(group, 1), testing::TimeLimit(5s));
  ASSERT_TRUE(group.IsBeyond(group.Step() + 30)) << group.Logs();
  EXPECT_EQ(StepAfterStop(group), StepOfStop(group) + 1) << group.Logs();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(group.IsRunning(i)) << i;
  EXPECT_EQ(group.Stop(2), api::kExitPreempted) << "it waits for a place again";
  EXPECT_EQ(group.Stop(1), api::kExitPreempted);
  EXPECT_EQ(group.Stop(0), api::kExitPreempted);
  EXPECT_EQ(group.Said("replica started").size(), 3u) << "by a supervisor";

  Group alone;
  alone.Start(0, 1);
  const std::map<std::int64_t, json> scaled = Epochs(group);
  ASSERT_GE(scaled.size(), 5u);
  ASSERT_TRUE(alone.IsBeyond(scaled.rbegin()->second["step"].get<std::int64_t>() + 20));
  alone.Stop(0);
  const std::map<std::int64_t, json> expected = Epochs(alone);
  std::int64_t next = scaled.begin()->first;
  for (const auto& [epoch, record] : scaled) {
    EXPECT_EQ(epoch, next++);
    EXPECT_EQ(record["samplesLost"], 0) << record;
    EXPECT_EQ(record["samplesDuplicated"], 0) << record;
    EXPECT_EQ(record["samples"], 600) << record;
    ASSERT_TRUE(expected.contains(epoch)) << epoch;
    // The sums of another number of processes are added in another order.
    const double loss = expected.at(epoch)["loss"];
    EXPECT_NEAR(record["loss"].get<double>(), loss, 0.01 + 0.02 * loss) << record;
  }
}

// Its successor was created for the new number, but the other worker has steps that nobody has
// saved.
TEST(ResizeTest, TheLeadingPodMayBeLostMeanwhile) {
  Group group;
  for (int i = 0; i < 2; ++i) group.Start(i, 2);
  ASSERT_TRUE(group.IsBeyond(60)) << group.Logs();  // a checkpoint is on the disk
  group.Start(2, 3);
  kill(group.ReplicaOf(0), SIGSTOP);
  const auto before = group.Ask(3);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(group.Stop(0, SIGKILL), 128 + SIGKILL);
  group.Start(0, 3);
  ASSERT_TRUE(Soon([&] {
    const auto said = group.Ask(3);
    return said && said->workers() == 3 && Trains(*said);
  })) << group.Logs();
  ASSERT_TRUE(group.IsBeyond(group.Step() + 30)) << group.Logs();
  const Records started = group.Said("the generation has started");
  EXPECT_TRUE(std::ranges::any_of(started, [&](const json& record) {
    return record["world"] == 2 && record["generation"] == before->generation() + 1;
  })) << group.Logs();
  EXPECT_EQ(started.back()["world"], 3);
  for (const auto& [epoch, record] : Epochs(group)) {
    EXPECT_EQ(record["samplesLost"], 0) << record;
    EXPECT_EQ(record["samplesDuplicated"], 0) << record;
  }
}

// Nobody has to leave, and only the memory of the processes has the steps.
TEST(ResizeTest, AGroupThatCannotSaveTrainsOnUntilItCan) {
  Group group;
  for (int i = 0; i < 2; ++i) group.Start(i, 2);
  ASSERT_TRUE(group.IsBeyond(60)) << group.Logs();
  const std::string away = group.Checkpoints() + ".away";
  std::filesystem::rename(group.Checkpoints(), away);
  std::ofstream(group.Checkpoints()) << "no folder";
  group.Start(2, 3);
  ASSERT_TRUE(Soon([&] {
    const auto said = group.Ask(3);
    return said && said->keeps_workers();
  })) << group.Logs();
  ASSERT_TRUE(group.IsBeyond(group.Step() + 120)) << group.Logs();
  EXPECT_EQ(group.Ask(3)->workers(), 2);
  // A member that is lost is waited for.
  const std::uint64_t generation = group.Ask(3)->generation();
  kill(group.ReplicaOf(1), SIGKILL);
  ASSERT_TRUE(Soon([&] {
    const auto said = group.Ask(3);
    return said && said->generation() > generation && Trains(*said);
  })) << group.Logs();
  ASSERT_TRUE(group.IsBeyond(group.Step() + 60)) << group.Logs();
  EXPECT_EQ(group.Ask(3)->workers(), 2);
  EXPECT_TRUE(group.Ask(3)->keeps_workers());
  EXPECT_TRUE(group.Said("restored a checkpoint").empty()) << "the others had the steps";
  // Twice if rank 1 hears of the number before rank 0 does.
  EXPECT_THAT(group.Said("the group keeps its number of workers until a checkpoint can be saved"),
              ::testing::SizeIs(::testing::AnyOf(1, 2)));
  EXPECT_TRUE(group.Said("the replica starts again: the group was resized").empty());
  std::filesystem::remove(group.Checkpoints());
  std::filesystem::rename(away, group.Checkpoints());
  Resize(group, 3);
  EXPECT_EQ(group.Said("replica started").size(), 4u) << "by a supervisor, the lost one twice";
}

// The number comes while rank 0, which has not tried to save for it, waits for a pod.
TEST(ResizeTest, AGroupThatWaitsForAMemberAndCannotSaveKeepsItsSteps) {
  Group group;
  for (int i = 0; i < 2; ++i) group.Start(i, 2);
  ASSERT_TRUE(group.IsBeyond(60)) << group.Logs();
  const std::string away = group.Checkpoints() + ".away";
  std::filesystem::rename(group.Checkpoints(), away);
  std::ofstream(group.Checkpoints()) << "no folder";
  EXPECT_EQ(group.Stop(1, SIGKILL), 128 + SIGKILL);
  ASSERT_TRUE(Soon([&] {
    const auto said = group.Ask(3);
    return said && said->keeps_workers();
  })) << group.Logs();
  EXPECT_EQ(group.Ask(3)->workers(), 2);
  const std::int64_t step = group.Step();
  group.Start(1, 2);
  ASSERT_TRUE(group.IsBeyond(step)) << group.Logs();
  EXPECT_TRUE(group.Said("restored a checkpoint").empty()) << group.Logs();
  std::filesystem::remove(group.Checkpoints());
  std::filesystem::rename(away, group.Checkpoints());
  group.Start(2, 3);
  Resize(group, 3);
}

// Its successor gets the steps from the other worker, and saves them.
TEST(ResizeTest, ALeadingProcessThatIsLostBeforeItHasSavedIsWaitedFor) {
  Group group;
  for (int i = 0; i < 2; ++i) group.Start(i, 2);
  ASSERT_TRUE(group.IsBeyond(60)) << group.Logs();
  group.Start(2, 3);
  const pid_t leading = group.ReplicaOf(0);
  kill(leading, SIGSTOP);
  const auto said = group.Ask(3);
  kill(leading, SIGKILL);
  ASSERT_TRUE(said.has_value());
  Resize(group, 3);
  const Records started = group.Said("the generation has started");
  EXPECT_TRUE(std::ranges::any_of(started, [&](const json& record) {
    return record["world"] == 2 && record["generation"] == said->generation() + 1;
  })) << group.Logs();
}

TEST(ResizeTest, AReplicaThatIsKilledAfterwardsComesBackIntoTheGroupAsItIs) {
  Group group;
  for (int i = 0; i < 2; ++i) group.Start(i, 2);
  ASSERT_TRUE(group.IsBeyond(30)) << group.Logs();
  Resize(group, 1);
  // Its supervisor's environment still has two workers.
  kill(group.ReplicaOf(0), SIGKILL);
  ASSERT_TRUE(Soon([&] { return group.Said("replica started").size() == 3; })) << group.Logs();
  ASSERT_TRUE(group.IsBeyond(group.Step() + 30)) << group.Logs();
  EXPECT_EQ(group.Said("the generation has started").back()["world"], 1);
}

}  // namespace
}  // namespace lockstep::train
