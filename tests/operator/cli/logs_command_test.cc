#include "operator/cli/logs_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "api/v1/names.h"
#include "operator/cli/exit_codes.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/state/kinds.h"
#include "operator/local/memory_client.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/operator/cli/terminal.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"

namespace lockstep::cli {
namespace {

using lockstep::testing::FakeClock;
using lockstep::testing::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LogsCommandTest : public ::testing::Test {
 protected:
  LogsCommandTest() : client_(clock_) {
    auto job = Job("j").Chief().Workers(2).ParameterServers(1).BuildWithDefaults();
    const auto made = client_.Create(controller::kTrainingJobKind, api::TrainingJobToJson(job));
    EXPECT_TRUE(made.ok());
    job.metadata.uid = kube::Uid(*made);  // pods without a living owner are garbage-collected
    for (const controller::Replica& replica : controller::AllReplicas(job)) {
      if (replica == controller::Replica{api::Role::kWorker, 1}) continue;  // cleaned up
      EXPECT_TRUE(
          client_
              .Create(kube::kPodKind,
                      controller::BuildPod(controller::ClusterSpec(job, controller::DnsAddresses()),
                                           {}, replica, 0))
              .ok());
    }
  }
  std::string Fault(const LogsOptions& options) {
    return std::string(FindLog(client_, "default", options).status().message());
  }

  FakeClock clock_;
  local::MemoryClient client_;
};

TEST_F(LogsCommandTest, TheLeadingReplicasMainContainerUnlessToldOtherwise) {
  struct Case {
    LogsOptions options;
    LogSource expected;
  };
  const Case cases[] = {
      {{.job = "j"}, {{"default", "j-chief-0"}, "tensorflow"}},
      {{.job = "j", .role = "worker"}, {{"default", "j-worker-0"}, "tensorflow"}},
      {{.job = "j", .role = "PS"}, {{"default", "j-ps-0"}, "tensorflow"}},
      {{.job = "j", .role = "ps", .container = "sidecar"}, {{"default", "j-ps-0"}, "sidecar"}},
  };
  for (const Case& c : cases) {
    const auto found = FindLog(client_, "default", c.options);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, c.expected) << c.expected.pod.name;
  }
}

TEST_F(LogsCommandTest, AnErrorNamesWhatIsMissingAndWhatExists) {
  EXPECT_THAT(Fault({.job = "no"}), HasSubstr("no"));
  EXPECT_EQ(Fault({.job = "j", .role = "teacher"}),
            "--role: found \"teacher\", expected chief, worker, ps or evaluator");
  EXPECT_EQ(Fault({.job = "j", .role = "worker", .index = 2}),
            "job j has no worker-2; it has: chief-0, worker-0 to worker-1, ps-0");
  EXPECT_THAT(Fault({.job = "j", .index = 1}),
              HasSubstr("pod j-worker-1 does not exist: the job is new"));
}

// Istio puts its proxy first if the application must wait for it.
TEST_F(LogsCommandTest, TheMainContainerIsTheOneThatTheOperatorHasNoted) {
  auto pod = client_.Get(kube::kPodKind, {"default", "j-worker-0"});
  ASSERT_TRUE(pod.ok());
  kube::Object& containers = pod->at("spec").at("containers");
  containers.at(0)["name"] = "train";
  kube::Object& metadata = pod->at("metadata");
  metadata["name"] = "j-worker-1";
  metadata["annotations"][api::kAnnotationMainContainer] = "train";
  for (const char* key : {"uid", "resourceVersion"}) metadata.erase(key);
  containers.insert(containers.begin(), {{"name", "istio-proxy"}, {"image", "proxy"}});
  ASSERT_TRUE(client_.Create(kube::kPodKind, *pod).ok());
  const auto found = FindLog(client_, "default", {.job = "j", .index = 1});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->container, "train");
}

TEST_F(LogsCommandTest, AnInitContainerThatHasFailedStandsForTheMainOne) {
  auto pod = client_.Get(kube::kPodKind, {"default", "j-worker-0"});
  ASSERT_TRUE(pod.ok());
  (*pod)["status"]["initContainerStatuses"] = {
      {{"name", "fetch"}, {"state", {{"terminated", {{"exitCode", 4}}}}}}};
  ASSERT_TRUE(client_.UpdateStatus(kube::kPodKind, *pod).ok());
  const auto found = FindLog(client_, "default", {.job = "j", .role = "worker"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, (LogSource{{"default", "j-worker-0"}, "fetch", true}));
}

// After a version skew, or an edit that this program refuses, the pods continue and have logs.
TEST_F(LogsCommandTest, TheStatusNamesTheReplicasOfAJobWhoseSpecCannotBeUsed) {
  const kube::Key key{"default", "j"};
  auto job = client_.Get(controller::kTrainingJobKind, key);
  ASSERT_TRUE(job.ok());
  job->at("spec") = {{"replicaSpecs", "none"}};
  ASSERT_TRUE(client_.Update(controller::kTrainingJobKind, *job).ok());
  const LogsOptions leading{.job = "j"};
  EXPECT_THAT(Fault(leading), HasSubstr("replicaSpecs")) << "it has never had a pod";
  job = client_.Get(controller::kTrainingJobKind, key);
  (*job)["status"]["replicaStatuses"] = {{"Chief", {{"desired", 1}}}, {"Worker", {{"desired", 2}}}};
  ASSERT_TRUE(client_.UpdateStatus(controller::kTrainingJobKind, *job).ok());
  const auto found = FindLog(client_, "default", leading);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, (LogSource{{"default", "j-chief-0"}, "tensorflow"}));
  EXPECT_EQ(Fault({.job = "j", .role = "ps"}),
            "job j has no ps-0; it has: chief-0, worker-0 to worker-1");
  EXPECT_THAT(Fault({.job = "j", .role = "worker", .index = 1}),
              HasSubstr("pod j-worker-1 does not exist, and the job's spec is invalid: "));
}

TEST_F(LogsCommandTest, TimesAreReadAsByKubectlAndInDays) {
  const auto since = [](const std::string& time) {
    CLI::App app;
    LogsOptions options;
    AddLogsCommand(app, options);
    app.parse("logs j --since " + time);
    return *options.since;
  };
  for (const auto& [time, seconds] : std::map<std::string, int>{{"30s", 30},
                                                                {"10m", 600},
                                                                {"1h30m", 5400},
                                                                {"1.5h", 5400},
                                                                {"1d12h", 129'600},
                                                                {"1m1s1ms", 62}}) {
    EXPECT_EQ(since(time), seconds) << time;
  }
  for (const char* bad : {"30", "1h30", "h", "1x", "0s", "1.2.3s", "999999999d"}) {
    try {
      ADD_FAILURE() << bad << " is " << since(bad);
    } catch (const CLI::ParseError& error) {
      EXPECT_EQ(
          std::string(error.what()),
          fmt::format("--since: found \"{}\", expected a time such as 30s, 10m, 1h30m or 1d", bad));
    }
  }
}

TEST_F(LogsCommandTest, WhatAClusterSaysDoesNotCommandTheTerminal) {
  const testing::FakeCluster cluster(403, R"({"kind": "Status", "code": 403, "reason": "Forbidden",
                                              "message": "not \u001b]0;yours\u0007 to see"})");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunLogs({.cluster = {.kubeconfig = cluster.kubeconfig()}, .job = "j"}), kExitNoLog);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("?]0;yours? to see"), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
}

// Runs the verb with `out` as its standard output.
ExitCode RunLogsInto(std::FILE* out, const LogsOptions& options) {
  std::fflush(stdout);
  const int own = dup(STDOUT_FILENO);
  EXPECT_EQ(dup2(fileno(out), STDOUT_FILENO), STDOUT_FILENO);
  const ExitCode code = RunLogs(options);
  std::fflush(stdout);
  EXPECT_EQ(dup2(own, STDOUT_FILENO), STDOUT_FILENO);
  close(own);
  return code;
}

TEST_F(LogsCommandTest, WhatAProgramLogsDoesNotCommandTheTerminal) {
  const kube::Object job = *client_.Get(controller::kTrainingJobKind, {"default", "j"});
  const kube::Object pod = *client_.Get(kube::kPodKind, {"default", "j-chief-0"});
  const testing::FakeCluster cluster(
      [&](const lockstep::testing::FakeHttpServer::Request& request,
          lockstep::testing::FakeHttpServer::Connection& connection) {
        if (request.target.find("/log") == std::string::npos) {
          const bool is_job = request.target.find("/trainingjobs/") != std::string::npos;
          return connection.Respond(200, (is_job ? job : pod).dump());
        }
        connection.StartChunks();
        connection.Chunk("loss 0.5 \x1b]0;yours\x07 \xc2");
        connection.Chunk("\x9b end\n");
        connection.EndChunks();
      });
  const testing::Terminal terminal;
  const LogsOptions options{.cluster = {.kubeconfig = cluster.kubeconfig()}, .job = "j"};
  EXPECT_EQ(RunLogsInto(terminal.out(), options), kExitDone);
  EXPECT_EQ(terminal.ReadTo("end\r\n"), "loss 0.5 ?]0;yours? ? end\r\n");
}

TEST_F(LogsCommandTest, AKubeconfigThatIsNotThereIsAUsageError) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunLogs({.cluster = {.kubeconfig = "/no/such"}, .job = "j"}), kExitUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("/no/such"));
}

}  // namespace
}  // namespace lockstep::cli
