#include "operator/cli/status_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "operator/cli/exit_codes.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/server_errors.h"
#include "operator/local/memory_client.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/operator/cli/terminal.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"
#include "tests/support/hooked_client.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli {
namespace {

using controller::kTrainingJobKind;
using lockstep::testing::FakeClock;
using lockstep::testing::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StatusCommandTest : public ::testing::Test {
 protected:
  StatusCommandTest() : client_(clock_) {}
  ~StatusCommandTest() override { std::fclose(out_); }

  void Add(const std::string& space, const std::string& name) {
    const auto job = Job(name).Namespace(space).Workers(2).Build();
    ASSERT_TRUE(client_.Create(kTrainingJobKind, api::TrainingJobToJson(job)).ok());
  }
  void SetState(const std::string& name, const std::string& state) {
    kube::Object job = *client_.Get(kTrainingJobKind, {"team", name});
    job["status"] = {{"state", state},
                     {"conditions", {{{"type", state}, {"status", "True"}, {"reason", "R"}}}}};
    ASSERT_TRUE(client_.UpdateStatus(kTrainingJobKind, job).ok());
  }
  absl::Status Show(
      const StatusOptions& options, const std::function<bool()>& wait = [] {
        ADD_FAILURE() << "waited";
        return false;
      }) {
    return ShowStatus(client_, "team", options, clock_, out_, wait);
  }
  std::string Printed() { return ReadTextFile(folder_.At("out")); }

  FakeClock clock_;
  local::MemoryClient client_;
  TempDirectory folder_;
  std::FILE* const out_ = std::fopen(folder_.At("out").c_str(), "w");
};

TEST_F(StatusCommandTest, OneTableOfANamespaceSortedByName) {
  Add("team", "b");
  Add("team", "a");
  Add("other", "c");
  ASSERT_TRUE(Show({}).ok());
  EXPECT_THAT(Printed(), HasSubstr("\na "));
  EXPECT_LT(Printed().find("\na "), Printed().find("\nb "));
  EXPECT_THAT(Printed(), Not(HasSubstr("\nc ")));
  EXPECT_THAT(Printed(), Not(HasSubstr("\033")));
}

TEST_F(StatusCommandTest, AllNamespacesHaveAColumn) {
  Add("team", "a");
  Add("other", "c");
  ASSERT_TRUE(Show({.all_namespaces = true}).ok());
  EXPECT_THAT(Printed(), HasSubstr("NAMESPACE"));
  EXPECT_THAT(Printed(), HasSubstr("other       c"));
}

TEST_F(StatusCommandTest, ProgramsGetTheStatusOfTheApi) {
  Add("team", "a");
  SetState("a", "Running");
  ASSERT_TRUE(Show({.output = "json"}).ok());
  const auto json = nlohmann::json::parse(Printed());
  EXPECT_EQ(json["jobs"][0]["name"], "a");
  EXPECT_EQ(json["jobs"][0]["status"]["state"], "Running");
  ASSERT_TRUE(Show({.output = "yaml"}).ok());
  EXPECT_THAT(Printed(), HasSubstr("\n---\njobs:\n"));
  EXPECT_THAT(Printed(), HasSubstr("state: Running\n"));
}

TEST_F(StatusCommandTest, NothingInAnObjectActsOnATerminal) {
  Add("team", "a");
  SetState("a", "\u202ERunning");
  ASSERT_TRUE(Show({.output = "json"}).ok());
  EXPECT_THAT(Printed(), AllOf(HasSubstr(R"("\u202eRunning")"), Not(HasSubstr("\u202E"))));
}

TEST_F(StatusCommandTest, AWideTableHasMoreColumns) {
  Add("team", "a");
  kube::Object job = *client_.Get(kTrainingJobKind, {"team", "a"});
  job["status"] = {{"progress",
                    {{"step", 3},
                     {"totalSteps", 9},
                     {"epoch", 1.5},
                     {"accuracy", 0.875},
                     {"goodput", 0.96},
                     {"lastCheckpointStep", 2}}}};
  ASSERT_TRUE(client_.UpdateStatus(kTrainingJobKind, job).ok());
  ASSERT_TRUE(Show({.output = "wide"}).ok());
  EXPECT_THAT(Printed(), HasSubstr("GOODPUT"));
  EXPECT_THAT(Printed(), ::testing::ContainsRegex(" 1.50 +87.50% +- +96.00% +2 +-\n"));
}

TEST_F(StatusCommandTest, SaysThatThereAreNoJobs) {
  ASSERT_TRUE(Show({}).ok());
  EXPECT_EQ(Printed(), "No TrainingJobs in namespace team.\n");
}

TEST_F(StatusCommandTest, AJobThatIsNotThereIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(Show({.job = "no"})));
}

TEST_F(StatusCommandTest, WatchingPrintsWhatChangesAndEndsWithTheJobs) {
  Add("team", "a");
  int waits = 0;
  const auto wait = [&] {
    ++waits;
    if (waits == 2) SetState("a", "Running");
    if (waits == 4) SetState("a", "Succeeded");
    return true;
  };
  ASSERT_TRUE(Show({.job = "a", .watch = true}, wait).ok());
  EXPECT_EQ(waits, 4);
  std::size_t tables = 0;
  const std::string printed = Printed();
  for (std::size_t at = 0; (at = printed.find("NAME", at)) != std::string::npos; ++at) ++tables;
  EXPECT_EQ(tables, 3U) << printed;
}

// Shows the job `a`, whose server fails with each of `errors` in turn after the first poll; the job
// then succeeds.
absl::Status WatchOver(const std::vector<absl::Status>& errors, const Clock& clock,
                       std::FILE* out) {
  lockstep::testing::HookedClient client(clock);
  client.Add(kTrainingJobKind,
             api::TrainingJobToJson(Job("a").Namespace("team").Workers(1).Build()));
  std::size_t polls = 0;
  client.SetBefore([&](const lockstep::testing::HookedClient::Call&) {
    const std::size_t error = polls++;
    return error == 0 || error > errors.size() ? absl::OkStatus() : errors[error - 1];
  });
  const auto wait = [&] {
    if (polls <= errors.size()) return true;
    client.Modify(kTrainingJobKind, {"team", "a"}, [](kube::Object& job) {
      job["status"] = {{"conditions", {{{"type", "Succeeded"}, {"status", "True"}}}}};
    });
    return true;
  };
  return ShowStatus(client, "team", {.job = "a", .watch = true}, clock, out, wait);
}

TEST_F(StatusCommandTest, AWatchGoesOnOverAnOutageOfTheServer) {
  const auto lost = absl::UnavailableError("lost"), late = absl::DeadlineExceededError("late");
  const auto busy = kube::MarkOverloaded(absl::ResourceExhaustedError("busy"));
  const absl::Status shown = WatchOver({lost, late, busy}, clock_, out_);
  EXPECT_TRUE(shown.ok()) << shown;
  EXPECT_THAT(Printed(), HasSubstr("Succeeded"));
  EXPECT_TRUE(WatchOver(std::vector(29, lost), clock_, out_).ok());
  EXPECT_EQ(WatchOver(std::vector(30, lost), clock_, out_), lost);
  const auto refused = absl::PermissionDeniedError("refused");
  EXPECT_EQ(WatchOver({lost, refused}, clock_, out_), refused);
}

TEST_F(StatusCommandTest, AWatchOfAServerThatNeverAnsweredEnds) {
  lockstep::testing::HookedClient client(clock_);
  const auto lost = absl::UnavailableError("lost");
  client.SetBefore([&](const lockstep::testing::HookedClient::Call&) { return lost; });
  EXPECT_EQ(ShowStatus(client, "team", {.watch = true}, clock_, out_, [] { return false; }), lost);
}

TEST_F(StatusCommandTest, AJobThatWasWatchedAndFailedIsAnErrorOfItsOwn) {
  Add("team", "a");
  SetState("a", "Failed");
  const StatusOptions once{.job = "a"};
  EXPECT_TRUE(Show(once).ok()) << "to look is not to wait";
  StatusOptions watched = once;
  watched.watch = true;
  const absl::Status status = Show(watched);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("job a failed: R"));
}

TEST_F(StatusCommandTest, OfAllJobsThoseCountThatHadNotEndedBefore) {
  for (const char* name : {"a", "b", "c", "d"}) Add("team", name);
  SetState("a", "Failed");  // last month
  const auto end_others_as = [this](const std::string& state) {
    return [this, state] {
      for (const char* name : {"b", "c", "d"}) SetState(name, name[0] == 'c' ? "Succeeded" : state);
      return true;
    };
  };
  const StatusOptions watched{.watch = true};
  EXPECT_TRUE(Show(watched, end_others_as("Succeeded")).ok());
  EXPECT_TRUE(Show(watched).ok()) << "nothing was left to wait for";
  for (const char* name : {"b", "d"}) SetState(name, "Running");
  const absl::Status failed = Show(watched, end_others_as("Failed"));
  EXPECT_TRUE(absl::IsAborted(failed)) << failed;
  EXPECT_EQ(failed.message(), "job b failed: R; job d failed: R");
}

// Lines that have left the terminal cannot be drawn over, and each look would add some.
TEST_F(StatusCommandTest, OfATableLongerThanTheTerminalTheFirstLinesAreKeptUpToDate) {
  const auto name = [](int i) { return fmt::format("job-{:02}", i); };
  for (int i = 0; i < 60; ++i) Add("team", name(i));
  const testing::Terminal terminal;
  terminal.SetColumns(100);  // and 24 rows
  int waits = 0;
  const auto wait = [&] {
    if (++waits == 1) SetState(name(0), "Running");
    for (int i = 0; waits == 2 && i < 60; ++i) SetState(name(i), "Succeeded");
    return true;
  };
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  ASSERT_TRUE(ShowStatus(client_, "team", {}, clock_, terminal.out(), wait).ok());
  const std::string shown = terminal.ReadTo("job-59");
  const std::string up = "\033[23A\033[J";
  std::size_t begin = 0;
  for (int look = 0; look < 3; ++look) {
    const std::size_t end = shown.find(up, begin);
    ASSERT_NE(end, std::string::npos) << look << ": " << shown;
    const std::string text = shown.substr(begin, end - begin);
    EXPECT_EQ(lines(text), 23) << text;
    EXPECT_THAT(text, HasSubstr("job-20"));
    EXPECT_THAT(text, HasSubstr("… 39 more lines: --no-watch prints all\r\n"));
    begin = end + up.size();
  }
  const std::string whole = shown.substr(begin, shown.find("job-59") - begin);
  EXPECT_EQ(lines(whole), 60) << "the head and the other jobs: " << whole;

  ASSERT_TRUE(Show({.watch = false}).ok());
  EXPECT_THAT(Printed(), AllOf(HasSubstr("job-59"), Not(HasSubstr("more lines"))));
  const StatusOptions once{.watch = false};
  ASSERT_TRUE(ShowStatus(client_, "team", once, clock_, terminal.out(), wait).ok());
  EXPECT_THAT(terminal.ReadTo("job-59"), Not(HasSubstr("more lines")));
}

TEST_F(StatusCommandTest, ATerminalsTableIsDrawnOverInPlace) {
  Add("team", "a");
  const testing::Terminal terminal;
  const auto wait = [this] {
    SetState("a", "Succeeded");
    return true;
  };
  const StatusOptions options{.job = "a", .watch = true};
  ASSERT_TRUE(ShowStatus(client_, "team", options, clock_, terminal.out(), wait).ok());
  const std::string shown = terminal.ReadTo("Succeeded");
  const std::size_t drawn_over = shown.find("\033[2A\033[J");  // two lines up: a header and a row
  ASSERT_NE(drawn_over, std::string::npos) << shown;
  EXPECT_THAT(shown.substr(drawn_over), HasSubstr("Succeeded"));
}

TEST_F(StatusCommandTest, AJobThatCannotBeReadIsStillShown) {
  Add("team", "a");
  kube::Object job = *client_.Get(kTrainingJobKind, {"team", "a"});
  job["spec"]["replicaSpecs"] = 7;
  ASSERT_TRUE(client_.Update(kTrainingJobKind, job).ok());
  ASSERT_TRUE(Show({}).ok());
  EXPECT_THAT(Printed(), HasSubstr("\na "));
}

// Runs the verb against a cluster that answers `status` and `body`; returns the exit code.
ExitCode ExitOf(int status, const std::string& body, bool watch, std::string& err) {
  const testing::FakeCluster cluster(status, body);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const ExitCode code =
      RunStatus({.cluster = {.kubeconfig = cluster.kubeconfig()}, .job = "j", .watch = watch});
  ::testing::internal::GetCapturedStdout();
  err = ::testing::internal::GetCapturedStderr();
  return code;
}

TEST(RunStatusTest, ARefusalIsAnErrorThatDoesNotCommandTheTerminal) {
  std::string err;
  EXPECT_EQ(ExitOf(403, R"({"kind": "Status", "code": 403, "reason": "Forbidden",
                            "message": "not \u001b]0;yours\u0007 to see"})",
                   /*watch=*/false, err),
            kExitNoAnswer);
  EXPECT_THAT(
      err, AllOf(HasSubstr("?]0;yours? to see"), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
}

TEST(RunStatusTest, AJobThatFailedHasAnExitCodeOfItsOwnOnlyIfWatched) {
  api::TrainingJob job = Job("j").Workers(1).Build();
  kube::Object object = api::TrainingJobToJson(job);
  object["status"] = {
      {"state", "Failed"},
      {"conditions", {{{"type", "Failed"}, {"status", "True"}, {"reason", "Diverged"}}}}};
  std::string err;
  EXPECT_EQ(ExitOf(200, object.dump(), /*watch=*/false, err), kExitDone) << err;
  EXPECT_EQ(ExitOf(200, object.dump(), /*watch=*/true, err), kExitJobFailed);
  EXPECT_EQ(err, "lockstep: job j failed: Diverged\n");
}

TEST(RunStatusTest, AKubeconfigThatIsNotThereIsAUsageError) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunStatus({.cluster = {.kubeconfig = "/no/such"}}), kExitUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("/no/such"));
}

}  // namespace
}  // namespace lockstep::cli
