#include "operator/cli/describe_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "api/v1/names.h"
#include "base/rfc3339.h"
#include "operator/controller/state/kinds.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/operator/cli/program.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"
#include "tests/support/hooked_client.h"

namespace lockstep::cli {
namespace {

using controller::kTrainingJobKind;
using kube::Object;
using lockstep::testing::FakeClock;
using lockstep::testing::Job;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DescribeCommandTest : public ::testing::Test {
 protected:
  void AddJob(int workers, const Object& status) {
    const auto job = Job("mnist").Namespace("team").Workers(workers).Training().Build();
    Object object = api::TrainingJobToJson(job);
    object["status"] = status;
    uid_ = kube::Uid(client_.Add(kTrainingJobKind, object));
  }
  void AddPod(int index, const Object& status, const std::string& owner = "",
              const std::string& attempt = "0") {
    const std::string name =
        owner.empty() ? fmt::format("mnist-worker-{}", index) : fmt::format("other-{}", index);
    const Object pod = {{"metadata",
                         {{"name", name},
                          {"namespace", "team"},
                          {"labels",
                           {{api::kLabelJobName, "mnist"},
                            {api::kLabelRole, "worker"},
                            {api::kLabelReplicaIndex, std::to_string(index)},
                            {api::kLabelAttempt, attempt}}},
                          {"ownerReferences",
                           {{{"apiVersion", "training.lockstep.dev/v1"},
                             {"kind", "TrainingJob"},
                             {"name", "mnist"},
                             {"uid", owner.empty() ? uid_ : owner},
                             {"controller", true}}}}}},
                        {"spec", {{"nodeName", "node-7"}, {"containers", {{{"name", "trainer"}}}}}},
                        {"status", status}};
    client_.Add(kube::kPodKind, pod);
  }
  void AddEvent(const std::string& regarding, const std::string& note, Duration ago) {
    const Object event = {{"metadata", {{"name", "event-" + note}, {"namespace", "team"}}},
                          {"involvedObject", {{"kind", "Pod"}, {"name", regarding}}},
                          {"type", "Warning"},
                          {"reason", "BackOff"},
                          {"message", note},
                          {"eventTime", FormatApiMicroTime(clock_.Now() - ago)}};
    client_.Add(kube::kCoreEventKind, event);
  }
  std::string Describe(const std::string& output = "text") {
    const auto text = cli::Describe(
        client_, {"team", "mnist"}, clock_,
        [this](const kube::Key& pod, const std::string& container, bool previous) {
          asked_ = fmt::format("{}/{}{}", pod.name, container, previous ? ", previous" : "");
          return log_;
        },
        output);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  static Object MainContainer(const Object& state, int restarts = 0) {
    return {
        {"phase", "Running"},
        {"containerStatuses",
         {{{"name", "trainer"}, {"restartCount", restarts}, {"ready", true}, {"state", state}}}}};
  }
  static Object Running() { return MainContainer({{"running", Object::object()}}); }

  FakeClock clock_;
  lockstep::testing::HookedClient client_{clock_};
  std::string uid_, asked_;
  absl::StatusOr<std::string> log_ = "step 7\nkilled";
};

TEST_F(DescribeCommandTest, SaysWhatARoleWaitsFor) {
  const auto ready = api::DependencyStatus::kReady;
  Object object =
      api::TrainingJobToJson(Job("mnist")
                                 .Namespace("team")
                                 .ParameterServers(1)
                                 .Workers(1)
                                 .Training()
                                 .DependsOn(api::Role::kWorker, api::Role::kParameterServer, ready)
                                 .Build());
  object["status"] = {{"state", "Pending"},
                      {"conditions",
                       {{{"type", "Running"},
                         {"status", "False"},
                         {"lastTransitionTime", "2026-01-01T00:00:00Z"},
                         {"reason", "WaitsForRole"},
                         {"message", "Worker waits until PS is ready (0 of 1)"}}}}};
  client_.Add(kTrainingJobKind, object);
  const std::string text = Describe();
  EXPECT_THAT(text,
              HasSubstr("Not Running: WaitsForRole: Worker waits until PS is ready (0 of 1)"));
  EXPECT_THAT(text, HasSubstr("ps-0       -      -          -     no pod\n"));
  EXPECT_THAT(text, HasSubstr("worker-0   -      -          -     waits for PS\n"));
}

TEST_F(DescribeCommandTest, TheCauseOfAFailureComesFirst) {
  AddJob(2, {{"state", "Failed"},
             {"restartCount", 7},
             {"restarts", {{"application", 6}, {"disruption", 1}}},
             {"conditions",
              {{{"type", "Failed"},
                {"status", "True"},
                {"reason", "BackoffLimitExceeded"},
                {"message", "worker-1 failed 7 times"}}}},
             {"failure",
              {{"role", "worker"},
               {"index", 1},
               {"node", "node-7"},
               {"exitCode", 137},
               {"reason", "OOMKilled"},
               {"message", "the container exceeded its memory limit"}}}});
  AddPod(0, Running());
  AddPod(1, MainContainer({{"terminated", {{"exitCode", 137}, {"reason", "OOMKilled"}}}}));
  const std::string text = Describe();
  EXPECT_THAT(text, StartsWith("mnist in namespace team: Failed, created 0s ago, 7 restarts "
                               "(6 by its program, 1 by disruptions)\n"
                               "Failed: BackoffLimitExceeded: worker-1 failed 7 times\n"
                               "last failure: worker-1 on node-7, exit code 137, OOMKilled\n"
                               "the container exceeded its memory limit\n"));
  EXPECT_THAT(text, HasSubstr("training: core-cnn on idx in /data/mnist, 2 epochs of batches of "
                              "128\n"));
  EXPECT_THAT(text, HasSubstr("\nREPLICA    NODE     RESTARTS   AGE   STATE\n"
                              "worker-0   node-7   0          0s    Running\n"
                              "worker-1   node-7   0          0s    Failed: OOMKilled, exit code "
                              "137\n"));
  EXPECT_THAT(text, HasSubstr("\nThe last lines of the log of worker-1:\nstep 7\nkilled\n"));
  EXPECT_EQ(asked_, "mnist-worker-1/trainer");
}

TEST_F(DescribeCommandTest, ForProgramsItIsOneObject) {
  AddJob(2, {{"state", "Failed"}, {"failure", {{"role", "worker"}, {"index", 1}}}});
  AddPod(1, MainContainer({{"terminated", {{"exitCode", 3}, {"reason", "Error"}}}}));
  AddPod(5, Running());
  clock_.Advance(std::chrono::minutes(10));
  AddEvent("mnist-worker-1", "again", std::chrono::minutes(1));
  const std::string message = "two\nlines" + std::string(1000, '.');
  AddEvent("mnist-worker-1", "long", std::chrono::seconds(1));
  client_.Modify(kube::kCoreEventKind, {"team", "event-long"},
                 [&](Object& event) { event["message"] = message; });
  const auto found = nlohmann::json::parse(Describe("json"));
  EXPECT_EQ(found.at("events").at(1).at("message"), message);
  EXPECT_EQ(found.at("name"), "mnist");
  EXPECT_EQ(found.at("state"), "Failed");
  EXPECT_EQ(found.at("invalid"), nullptr);
  EXPECT_EQ(found.at("status").at("failure").at("index"), 1);
  ASSERT_EQ(found.at("replicas").size(), 3U) << "one of them is outside of the spec";
  EXPECT_EQ(found.at("replicas").at(0), (nlohmann::json{{"replica", "worker-0"},
                                                        {"pod", nullptr},
                                                        {"node", nullptr},
                                                        {"restarts", nullptr},
                                                        {"state", "no pod"}}));
  EXPECT_EQ(found.at("replicas").at(1).at("state"), "Failed: exit code 3");
  EXPECT_EQ(found.at("replicas").at(2).at("replica"), "worker-5");
  EXPECT_EQ(found.at("events").at(0).at("message"), "again");
  EXPECT_EQ(found.at("events").at(0).at("count"), 1);
  EXPECT_EQ(found.at("log"), (nlohmann::json{{"replica", "worker-1"},
                                             {"container", "trainer"},
                                             {"text", "step 7\nkilled\n"},
                                             {"error", nullptr}}));
  EXPECT_THAT(Describe("yaml"), HasSubstr("\nstate: Failed\n"));
}

TEST_F(DescribeCommandTest, APendingJobSaysWhatItWaitsFor) {
  AddJob(1, {{"state", "Pending"},
             {"conditions",
              {{{"type", "Running"},
                {"status", "False"},
                {"reason", "Unschedulable"},
                {"message", "worker-0: 0/3 nodes are available"}}}}});
  const std::string text = Describe();
  EXPECT_THAT(text, HasSubstr("Not Running: Unschedulable: worker-0: 0/3 nodes are available\n"));
  EXPECT_THAT(text, HasSubstr("worker-0   -      -          -     no pod\n"));
  EXPECT_EQ(asked_, "") << "nothing has failed";
}

TEST_F(DescribeCommandTest, AContainerThatIsRestartedHasToldWhyBefore) {
  AddJob(1, {{"state", "Running"}});
  AddPod(0, MainContainer({{"waiting", {{"reason", "CrashLoopBackOff"}}}}, /*restarts=*/4));
  Describe();
  EXPECT_EQ(asked_, "mnist-worker-0/trainer, previous");
}

TEST_F(DescribeCommandTest, AnInitContainerThatFailsIsToBlame) {
  AddJob(2, {{"state", "Failed"}});
  Object status = MainContainer({{"waiting", {{"reason", "PodInitializing"}}}});
  status["phase"] = "Failed";
  const Object succeeded = {{"terminated", {{"exitCode", 0}}}};
  const Object failed = {{"terminated", {{"exitCode", 4}}}};
  status["initContainerStatuses"] = {{{"name", "prepare"}, {"state", succeeded}},
                                     {{"name", "fetch"}, {"state", failed}}};
  AddPod(1, status);
  EXPECT_THAT(Describe(),
              HasSubstr("\nThe last lines of the log of worker-1 (init container fetch):\n"
                        "step 7\nkilled\n"));
  EXPECT_EQ(asked_, "mnist-worker-1/fetch");
}

// With the restart scope Pod.
TEST_F(DescribeCommandTest, AnInitContainerThatIsRestartedHasToldWhyBefore) {
  AddJob(1, {{"state", "Pending"}});
  Object status = MainContainer({{"waiting", {{"reason", "PodInitializing"}}}});
  status["phase"] = "Pending";
  status["initContainerStatuses"] = {{{"name", "fetch"},
                                      {"restartCount", 7},
                                      {"state", {{"waiting", {{"reason", "CrashLoopBackOff"}}}}},
                                      {"lastState", {{"terminated", {{"exitCode", 4}}}}}}};
  AddPod(0, status);
  EXPECT_THAT(Describe(), HasSubstr("\nworker-0   node-7   7 "));
  EXPECT_EQ(asked_, "mnist-worker-0/fetch, previous");
}

TEST_F(DescribeCommandTest, AFailureThatIsPastDoesNotBlameAHealthySuccessor) {
  const Object failure = {{"role", "worker"}, {"index", 0}, {"exitCode", 137}};
  AddJob(2, {{"state", "Running"}, {"failure", failure}});
  AddPod(0, Running());
  Describe();
  EXPECT_EQ(asked_, "");
  AddPod(1, MainContainer({{"terminated", {{"exitCode", 1}}}}, /*restarts=*/2));
  Describe();
  EXPECT_EQ(asked_, "mnist-worker-1/trainer") << "which has failed now";
}

TEST_F(DescribeCommandTest, OfAnInvalidJobItShowsNoSettings) {
  client_.Add(kTrainingJobKind, {{"metadata", {{"name", "mnist"}, {"namespace", "team"}}},
                                 {"spec", {{"training", {{"dataset", {{"format", "tapes"}}}}}}}});
  const std::string text = Describe();
  EXPECT_THAT(text, HasSubstr("Invalid: "));
  EXPECT_THAT(text, Not(HasSubstr("training: ")));
}

TEST_F(DescribeCommandTest, EachKindOfRestartIsNamed) {
  AddJob(1, {{"state", "Running"},
             {"restartCount", 6},
             {"restarts", {{"evaluator", 4}, {"disruption", 1}}}});
  EXPECT_THAT(Describe(), HasSubstr("6 restarts (1 by disruptions, 4 of the Evaluator, 1 by the "
                                    "kubelet)"));
}

TEST_F(DescribeCommandTest, PodsOfAnotherJobAreNotItsOwn) {
  AddJob(1, {{"state", "Running"}});
  AddPod(0, Running(), /*owner=*/"another-uid");
  EXPECT_THAT(Describe(), HasSubstr("no pod\n"));
}

TEST_F(DescribeCommandTest, EventsAreThoseOfTheJobByTime) {
  AddJob(1, {{"state", "Running"}});
  clock_.Advance(std::chrono::minutes(10));
  AddEvent("mnist-worker-0", "second", std::chrono::minutes(1));
  AddEvent("mnist-worker-0", "first", std::chrono::minutes(3));
  AddEvent("mnist-worker-9", "others", std::chrono::minutes(2));
  const std::string text = Describe();
  EXPECT_THAT(text, HasSubstr("AGE   TYPE      OBJECT           REASON    EVENT\n"
                              "3m    Warning   mnist-worker-0   BackOff   first\n"
                              "60s   Warning   mnist-worker-0   BackOff   second\n"));
  EXPECT_THAT(text, Not(HasSubstr("others")));
}

TEST_F(DescribeCommandTest, OfALargeJobOnlyReplicasInTroubleHaveALine) {
  AddJob(50, {{"state", "Running"}});
  for (int i = 0; i < 49; ++i) AddPod(i, Running());
  const std::string text = Describe();
  EXPECT_THAT(text, Not(HasSubstr("worker-7 ")));
  EXPECT_THAT(text, HasSubstr("worker-49   -      -          -     no pod\n49 more run\n"));
}

TEST_F(DescribeCommandTest, WhatMayNotBeReadIsSaid) {
  AddJob(1, {{"state", "Running"}});
  AddPod(0, MainContainer({{"terminated", {{"exitCode", 1}}}}));
  log_ = absl::PermissionDeniedError("pods/log is forbidden");
  client_.SetBefore([](const lockstep::testing::HookedClient::Call& call) {
    return call.kind == kube::kCoreEventKind.kind
               ? absl::PermissionDeniedError("events are forbidden\033[2J")
               : absl::OkStatus();
  });
  const std::string text = Describe();
  EXPECT_THAT(text, HasSubstr("The log of worker-0 cannot be read: pods/log is forbidden\n"));
  EXPECT_THAT(text, HasSubstr("The events cannot be read: events are forbidden?[2J\n"));
}

// After an edit, or if this program cannot read the spec.
TEST_F(DescribeCommandTest, APodOutsideTheSpecHasItsRowAndItsEvents) {
  AddJob(1, {{"state", "Running"}});
  AddPod(0, Running());
  AddPod(3, Running());
  AddEvent("mnist-worker-3", "still-here", std::chrono::seconds(1));
  const std::string text = Describe();
  EXPECT_THAT(text, HasSubstr("\nworker-3   node-7   0          0s    Running\n"));
  EXPECT_THAT(text, HasSubstr("still-here"));
}

TEST_F(DescribeCommandTest, ALogThatDoesNotEndIsGivenUp) {
  AddJob(1, {{"state", "Running"}});
  AddPod(0, MainContainer({{"terminated", {{"exitCode", 1}}}}));
  const Object job = *client_.Get(kTrainingJobKind, {"team", "mnist"});
  const Object pods = {{"metadata", {{"resourceVersion", "1"}}},
                       {"items", {*client_.Get(kube::kPodKind, {"team", "mnist-worker-0"})}}};
  const testing::FakeCluster cluster(
      [&](const lockstep::testing::FakeHttpServer::Request& request,
          lockstep::testing::FakeHttpServer::Connection& connection) {
        const auto asks_for = [&](const char* part) {
          return request.target.find(part) != std::string::npos;
        };
        if (asks_for("/trainingjobs/")) return connection.Respond(200, job.dump());
        if (asks_for("/log")) {
          connection.StartChunks();
          connection.Chunk("step 1\n");
          connection.AwaitClose();
          return;
        }
        connection.Respond(200, asks_for("/pods") ? pods.dump() : R"({"metadata": {}})");
      });
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunDescribe({.cluster = {.kubeconfig = cluster.kubeconfig(), .namespace_name = "team"},
                         .job = "mnist",
                         .patience = std::chrono::milliseconds(50)}),
            kExitDone);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("The log of worker-0 cannot be read: found no end of the log within 0 s"));
}

TEST_F(DescribeCommandTest, TextOfOthersCannotMoveTheCursor) {
  AddJob(1, {{"state", "Running"}});
  AddPod(0, MainContainer({{"terminated", {{"exitCode", 1}, {"reason", "a\033[2Jb"}}}}));
  log_ = "\033[2J";
  EXPECT_THAT(Describe(), Not(HasSubstr("\033")));
}

TEST(DescribeProgramTest, AJobThatIsNotThereIsAnError) {
  const testing::FakeCluster cluster(404,
                                     R"({"kind": "Status", "reason": "NotFound", "code": 404})");
  const TempDirectory folder;
  const testing::Ended ended =
      testing::RunProgram(folder.path(), {"describe", "no", "--kubeconfig", cluster.kubeconfig()});
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.err, HasSubstr("trainingjobs n/no"));
}

}  // namespace
}  // namespace lockstep::cli
