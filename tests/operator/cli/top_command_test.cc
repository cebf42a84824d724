#include "operator/cli/top_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "api/v1/names.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/local/work_dir.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/operator/cli/terminal.h"
#include "tests/support/builders.h"
#include "tests/support/temp_directory.h"
#include "tests/support/time_limit.h"

namespace lockstep::cli {
namespace {

using kube::Object;
using lockstep::testing::FakeHttpServer;
using lockstep::testing::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Object Pod(const std::string& role, int index) {
  return testing::TrainerPod(role, index, {{"state", {{"running", Object::object()}}}});
}

std::string Metrics(int rank, int step, double compute) {
  return fmt::format(
      "lockstep_trainer_step{{rank=\"{0}\"}} {1}\n"
      "lockstep_trainer_total_steps{{rank=\"{0}\"}} 100\n"
      "lockstep_trainer_world_size{{rank=\"{0}\"}} 2\n"
      "lockstep_trainer_steps_total{{rank=\"{0}\"}} {1}\n"
      "lockstep_trainer_loss{{rank=\"{0}\"}} 0.5\n"
      "lockstep_trainer_time_seconds_total{{rank=\"{0}\",phase=\"compute\"}} {2}\n",
      rank, step, compute);
}

class TopCommandTest : public ::testing::Test {
 protected:
  TopCommandTest()
      : cluster_([this](const FakeHttpServer::Request& request, FakeHttpServer::Connection& to) {
          Answer(request.target, to);
        }) {}
  ~TopCommandTest() override { std::fclose(out_); }

  void Answer(const std::string& target, FakeHttpServer::Connection& to) {
    if (target.find("/trainingjobs") != std::string::npos) {
      lockstep::testing::JobBuilder builder = Job("j");
      builder.Namespace("n").Workers(2);
      if (trains_) builder.Training();
      Object job = api::TrainingJobToJson(builder.Build());
      job["metadata"]["uid"] = "uid-of-j";
      job["status"] = {{"state", "Running"}, {"readyReplicas", "2/2"}};
      if (target.ends_with("/j")) return to.Respond(200, job.dump());
      const Object list = {{"metadata", {{"resourceVersion", "1"}}}, {"items", Object(jobs_, job)}};
      return to.Respond(200, list.dump());
    }
    for (int i = 0; i < 2; ++i) {
      const std::string path = fmt::format("/pods/j-worker-{}%3A8080/proxy/metrics", i);
      if (target.find(path) == std::string::npos) continue;
      if (silent_-- > 0) {
        to.AwaitClose();
        return to.Cut();
      }
      std::this_thread::sleep_for(read_takes_);
      if (i == 1 && refuses_) {
        return to.Respond(503, R"({"kind": "Status", "message": "i/o timeout"})");
      }
      const int read = ++reads_;  // the ranks' steps differ, but not what a step takes
      std::string metrics = Metrics(i, read, read * (i + 1));
      for (int rank = 2; rank < boasts_; ++rank) metrics += Metrics(rank, read, 0);
      return to.Respond(200, metrics);
    }
    EXPECT_EQ(target.find("/proxy"), std::string::npos) << target;
    std::this_thread::sleep_for(list_takes_);
    Object list = {{"metadata", {{"resourceVersion", "1"}}},
                   {"items", {Pod("worker", 0), Pod("worker", 1), Pod("ps", 0)}}};
    for (int i = 2; i < more_; ++i) list["items"].push_back(Pod("worker", i % 2));
    to.Respond(200, list.dump());
  }

  absl::Status Show(const TopOptions& options, std::FILE* out) {
    const auto access = ReachCluster({.kubeconfig = cluster_.kubeconfig()});
    EXPECT_TRUE(access.ok()) << access.status();
    return ShowTop(
        options, [&] { return LookAtCluster(*access->client, "n", options.job); },
        [] { return true; }, out);
  }
  absl::Status Show(const TopOptions& options) { return Show(options, out_); }
  std::string Printed() { return ReadTextFile(folder_.At("out")); }

  std::atomic<bool> trains_ = true, refuses_ = false;
  std::atomic<int> reads_ = 0;
  std::atomic<int> silent_ = 0;  // of so many reads nothing is answered
  std::atomic<int> boasts_ = 0;  // each pod has so many ranks, it says
  std::size_t jobs_ = 1;         // in the list, with the same pods
  int more_ = 0;                 // so many workers, which are read at the addresses of the two
  Duration list_takes_{}, read_takes_{};
  TempDirectory folder_;
  std::FILE* const out_ = std::fopen(folder_.At("out").c_str(), "w");
  testing::FakeCluster cluster_;
};

TEST_F(TopCommandTest, OneJobWithEachOfItsRanks) {
  const absl::Status shown = Show({.job = "j", .once = true});
  EXPECT_TRUE(shown.ok()) << shown;
  EXPECT_THAT(Printed(), HasSubstr("j: Running, 2/2 ready\n"));
  EXPECT_THAT(Printed(), HasSubstr("/100, loss 0.5, goodput 100%\n"));
  EXPECT_THAT(Printed(), ::testing::ContainsRegex("\n0 +worker-0 +[34] +1000 ms +0% +100% "));
  EXPECT_THAT(Printed(),
              ::testing::ContainsRegex("\n1 +worker-1 +[34] +2000 ms .* straggler: \\+100%\n"));
}

TEST_F(TopCommandTest, AllJobsHaveALine) {
  EXPECT_TRUE(Show({.once = true}).ok());
  EXPECT_THAT(Printed(), HasSubstr("STRAGGLERS"));
  EXPECT_THAT(Printed(), ::testing::ContainsRegex("\nj +Running +[34]/100 .* 1\n"));
}

TEST_F(TopCommandTest, APodThatCannotBeReadIsNamed) {
  refuses_ = true;
  EXPECT_TRUE(Show({.job = "j", .once = true}).ok());
  EXPECT_THAT(Printed(), AllOf(HasSubstr("worker-0"), HasSubstr("no metrics of worker-1: "),
                               HasSubstr("i/o timeout")));
}

// A pod decides what it answers, with what status, and so what this says.
TEST_F(TopCommandTest, WhyAPodCannotBeReadTakesOneLine) {
  SeenJob seen;
  seen.top.name = "j";
  seen.top.unread = {{"worker-0", absl::UnavailableError("x\nvictim   Failed")},
                     {"worker-1", absl::UnavailableError(std::string(10'000, 'x'))}};
  seen.over = true;
  const auto look = [&]() -> absl::StatusOr<std::vector<SeenJob>> { return std::vector{seen}; };
  for (const char* job : {"", "j"}) {
    ASSERT_TRUE(ShowTop({.job = job}, look, [] { return true; }, out_).ok());
  }
  EXPECT_THAT(Printed(), AllOf(HasSubstr("worker-0: x victim   Failed\n"),
                               Not(HasSubstr(std::string(500, 'x')))));
}

TEST_F(TopCommandTest, ALookEndsHoweverManyPodsAreSilent) {
  silent_ = 1000;
  more_ = 80;  // five times those that are read at once
  const auto access = ReachCluster({.kubeconfig = cluster_.kubeconfig()});
  const Duration limit = lockstep::testing::TimeLimit(std::chrono::seconds(4));
  Duration fastest = Duration::max();  // of three: a machine with other work slows down single ones
  absl::StatusOr<std::vector<SeenJob>> seen;
  for (int i = 0; i < 3 && fastest >= limit; ++i) {
    const SteadyTime begin = std::chrono::steady_clock::now();
    seen = LookAtCluster(*access->client, "n", "j", std::chrono::milliseconds(500));
    fastest = std::min<Duration>(fastest, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_LT(fastest, limit);
  ASSERT_TRUE(seen.ok()) << seen.status();
  const std::vector<UnreadPod>& unread = seen->front().top.unread;
  ASSERT_EQ(unread.size(), 80u);
  for (const UnreadPod& pod : unread) EXPECT_TRUE(absl::IsDeadlineExceeded(pod.why)) << pod.why;
  EXPECT_THAT(std::string(unread.back().why.message()), HasSubstr("not asked"));
}

TEST_F(TopCommandTest, APodHasNoMoreRanksThanItRunsProcesses) {
  boasts_ = 50;
  EXPECT_TRUE(Show({.job = "j", .once = true, .output = "json"}).ok());
  EXPECT_EQ(nlohmann::json::parse(Printed())["ranks"].size(), 2u);
}

TEST_F(TopCommandTest, SilentPodsLeaveTimeForTheOtherJobs) {
  silent_ = 16;  // as many as are read at once
  more_ = 32;
  jobs_ = 2;
  const auto access = ReachCluster({.kubeconfig = cluster_.kubeconfig()});
  const auto seen = LookAtCluster(*access->client, "n", "", std::chrono::seconds(3));
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->at(0).top.unread.size(), 32u);
  EXPECT_TRUE(seen->at(1).top.unread.empty());
}

// Whether a look of `most` reads all pods of each job.
absl::Status OneLookReadsAll(const std::string& kubeconfig, std::size_t jobs, Duration most) {
  const auto access = ReachCluster({.kubeconfig = kubeconfig});
  LOCKSTEP_ASSIGN_OR_RETURN(const auto seen, LookAtCluster(*access->client, "n", "", most));
  EXPECT_EQ(seen.size(), jobs);
  for (const SeenJob& job : seen) {
    if (!job.top.unread.empty()) return job.top.unread.front().why;
  }
  return absl::OkStatus();
}

// The same of one of three looks: a machine with other work may be late for the others.
absl::Status LookReadsAll(const std::string& kubeconfig, std::size_t jobs, Duration most) {
  absl::Status read;
  for (int i = 0; i < 3; ++i) {
    read = OneLookReadsAll(kubeconfig, jobs, most);
    if (read.ok()) break;
  }
  return read;
}

TEST_F(TopCommandTest, ListingPodsTakesNothingFromTheTimeToReadThem) {
  jobs_ = 2;
  list_takes_ = lockstep::testing::Slowed(std::chrono::milliseconds(1500));
  const absl::Status read = LookReadsAll(
      cluster_.kubeconfig(), jobs_, lockstep::testing::Slowed(std::chrono::milliseconds(2400)));
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(TopCommandTest, HoweverManyJobsThereAreEachHasTimeForPromptPods) {
  jobs_ = 8;
  read_takes_ = std::chrono::milliseconds(80);
  const absl::Status read =
      LookReadsAll(cluster_.kubeconfig(), jobs_, std::chrono::milliseconds(500));
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(TopCommandTest, AJobOfAnotherImageIsRefused) {
  trains_ = false;
  const absl::Status shown = Show({.job = "j", .once = true});
  EXPECT_TRUE(absl::IsFailedPrecondition(shown)) << shown;
  EXPECT_THAT(std::string(shown.message()), HasSubstr("spec.training"));
  EXPECT_TRUE(Show({.once = true}).ok());
  EXPECT_EQ(Printed(), "No TrainingJobs with the bundled trainer are running.\n");
}

TEST_F(TopCommandTest, ProgramsGetAnObjectOnALine) {
  EXPECT_TRUE(Show({.job = "j", .once = true, .output = "json"}).ok());
  const auto json = nlohmann::json::parse(Printed());
  EXPECT_EQ(json["namespace"], "n");
  EXPECT_EQ(json["ranks"][1]["replica"], "worker-1");
  EXPECT_EQ(json["ranks"][1]["step_seconds"], 2);
  EXPECT_EQ(json["ranks"][0]["phases"]["compute"], 1);
  EXPECT_NEAR(json["ranks"][1]["straggles_by"].get<double>(), 1.0, 1e-9);
  EXPECT_EQ(json["remaining_seconds"], nullptr);
}

// Whoever reads the lines would take a job that hangs for a program that does.
TEST_F(TopCommandTest, ElsewhereThanOnATerminalEachIntervalHasItsOwn) {
  for (const char* output : {"json", "text"}) {
    SeenJob seen;
    seen.top.name = "j";
    int looks = 0;
    const auto look = [&]() -> absl::StatusOr<std::vector<SeenJob>> {
      seen.over = ++looks == 4;
      return std::vector<SeenJob>{seen};
    };
    std::FILE* out = std::tmpfile();
    ASSERT_TRUE(ShowTop({.job = "j", .output = output}, look, [] { return true; }, out).ok());
    std::rewind(out);
    int times = 0;
    for (char line[1000]; std::fgets(line, sizeof line, out) != nullptr;) {
      times += std::string(line).find(output[0] == 'j' ? "{" : "j: ") == 0 ? 1 : 0;
    }
    std::fclose(out);
    EXPECT_EQ(times, 3) << output;
  }
}

TEST_F(TopCommandTest, AJobWithoutProgressHasNoNumbers) {
  const auto look = []() -> absl::StatusOr<std::vector<SeenJob>> {
    SeenJob seen;
    seen.over = true;
    return std::vector<SeenJob>{seen};
  };
  ASSERT_TRUE(ShowTop({.job = "j", .output = "json"}, look, [] { return true; }, out_).ok());
  const auto json = nlohmann::json::parse(Printed());
  for (const char* member : {"step", "total_steps", "examples_per_second"}) {
    EXPECT_EQ(json.at(member), nullptr) << member;
  }
}

TEST_F(TopCommandTest, OnATerminalATextReplacesTheOneBefore) {
  SeenJob seen;
  seen.top.name = "j";
  int looks = 0;
  const auto look = [&]() -> absl::StatusOr<std::vector<SeenJob>> {
    seen.top.step = ++looks;
    seen.over = looks == 3;
    if (looks == 2) return absl::UnavailableError("the server restarts");
    return std::vector<SeenJob>{seen};
  };
  const testing::Terminal terminal;
  const absl::Status shown = ShowTop({.job = "j"}, look, [] { return true; }, terminal.out());
  EXPECT_TRUE(shown.ok()) << shown;
  EXPECT_EQ(terminal.ReadTo("step 3\r\n"), "j: \r\nstep 1\r\n\033[2A\033[Jj: \r\nstep 3\r\n");
}

// Shows a job of this name at steps 1 and 2.
absl::Status ShowTwoSteps(const std::string& name, const std::string& output, std::FILE* out) {
  SeenJob seen;
  seen.top.name = name;
  const auto look = [&]() -> absl::StatusOr<std::vector<SeenJob>> {
    seen.over = ++seen.top.step == 2;
    return std::vector<SeenJob>{seen};
  };
  return ShowTop({.job = "j", .output = output}, look, [] { return true; }, out);
}

TEST_F(TopCommandTest, ALineThatATerminalWrapsIsReplacedWhole) {
  const auto shown = [](const std::string& name) {
    const testing::Terminal terminal;
    terminal.SetColumns(40);
    EXPECT_TRUE(ShowTwoSteps(name, "text", terminal.out()).ok());
    return terminal.ReadTo("step 2\r\n");
  };
  const std::string full(38, 'j');  // with ": "
  EXPECT_THAT(shown(full), HasSubstr("\033[2A\033[J"));
  EXPECT_THAT(shown(full + "j"), HasSubstr("\033[3A\033[J"));
  EXPECT_THAT(shown(full + full + "jjjjj"), HasSubstr("\033[4A\033[J"));
  std::string letters;  // of two bytes each
  for (std::size_t i = 0; i < full.size(); ++i) letters += "\u00E9";
  EXPECT_THAT(shown(letters), HasSubstr("\033[2A\033[J"));
}

TEST_F(TopCommandTest, ATableLongerThanTheTerminalIsPrintedWholeAtTheEnd) {
  std::vector<SeenJob> seen(30);
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i].top.name = "j" + std::to_string(i);
  const testing::Terminal terminal;
  terminal.SetColumns(100);  // and 24 rows
  const auto look = [&]() -> absl::StatusOr<std::vector<SeenJob>> { return seen; };
  const auto wait = [&] { return true; };
  ASSERT_TRUE(ShowTop({.once = true}, look, wait, terminal.out()).ok());
  const std::string shown = terminal.ReadTo("j29");
  EXPECT_THAT(shown, HasSubstr(" more lines: --once prints all\r\n"));
  EXPECT_THAT(shown, HasSubstr("\033[23A\033[J"));
  EXPECT_THAT(shown, HasSubstr("j29"));
}

TEST_F(TopCommandTest, ObjectsAreNotDrawnOverEachOther) {
  const testing::Terminal terminal;
  EXPECT_TRUE(ShowTwoSteps("j", "json", terminal.out()).ok());
  std::fputs("end", terminal.out());
  std::fflush(terminal.out());
  const std::string shown = terminal.ReadTo("end");
  EXPECT_THAT(shown, HasSubstr(R"("step":2.0,)"));
  EXPECT_THAT(shown, Not(HasSubstr("\033")));
  EXPECT_THAT(shown, Not(HasSubstr(R"("step":1.0,)"))) << "no interval has passed by then";
}

TEST_F(TopCommandTest, AnObjectIsAsciiWhateverPodsAnswer) {
  const auto look = []() -> absl::StatusOr<std::vector<SeenJob>> {
    SeenJob seen;
    seen.top.name = "w\xFF";
    seen.top.unread = {{"worker-0", absl::UnavailableError("\u202Enot \xC3 to see")}};
    seen.over = true;
    return std::vector<SeenJob>{seen};
  };
  ASSERT_TRUE(ShowTop({.work_dir = "w", .output = "json"}, look, [] { return true; }, out_).ok());
  const std::string printed = Printed();
  EXPECT_TRUE(std::ranges::all_of(printed, [](unsigned char c) { return c < 0x80; })) << printed;
  const auto json = nlohmann::json::parse(printed);
  EXPECT_EQ(json["job"], "w\uFFFD");
  EXPECT_EQ(json["unread"][0]["why"], "\u202Enot \uFFFD to see");
}

TEST_F(TopCommandTest, AFolderThatNoRunUsesIsAnError) {
  absl::StatusOr<WorkDir> work_dir = WorkDir::Open(folder_.At("w"), "j");
  ASSERT_TRUE(work_dir.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(LookAtRun(folder_.At("w")).status()))
      << "its replicas have no addresses yet";
  ASSERT_TRUE(work_dir->WriteMetricsAddresses({{"worker-0", "127.0.0.1:1"}}).ok());
  const auto seen = LookAtRun(folder_.At("w"));
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(seen->at(0).top.unread.size(), 1u) << "nobody listens there";
  ASSERT_TRUE(work_dir->WriteMetricsAddresses({}).ok());
  EXPECT_THAT(LookAtRun(folder_.At("w")).status().ToString(), HasSubstr("no spec.training"));
  work_dir->RemoveMetricsAddresses();
  EXPECT_TRUE(absl::IsFailedPrecondition(LookAtRun(folder_.At("w")).status()));
}

}  // namespace
}  // namespace lockstep::cli
