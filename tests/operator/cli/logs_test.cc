#include "operator/cli/logs_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/names.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/state/kinds.h"
#include "operator/local/memory_client.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"

namespace lockstep::cli {
namespace {

using lockstep::testing::FakeClock;
using lockstep::testing::Job;
using ::testing::HasSubstr;

class LogsTest : public ::testing::Test {
 protected:
  LogsTest() : client_(clock_) {
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
    return std::string(FindLog(client_, options).status().message());
  }

  FakeClock clock_;
  local::MemoryClient client_;
};

TEST_F(LogsTest, TheLeadingReplicasMainContainerUnlessToldOtherwise) {
  struct Case {
    LogsOptions options;
    LogSource expected;
  };
  const Case cases[] = {
      {{.job = "j", .namespace_name = "default"}, {{"default", "j-chief-0"}, "tensorflow"}},
      {{.job = "j", .namespace_name = "default", .role = "worker"},
       {{"default", "j-worker-0"}, "tensorflow"}},
      {{.job = "j", .namespace_name = "default", .role = "PS"},
       {{"default", "j-ps-0"}, "tensorflow"}},
      {{.job = "j", .namespace_name = "default", .role = "ps", .container = "sidecar"},
       {{"default", "j-ps-0"}, "sidecar"}},
  };
  for (const Case& c : cases) {
    const auto found = FindLog(client_, c.options);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, c.expected) << c.expected.pod.name;
  }
}

TEST_F(LogsTest, WhatIsNotThereIsNamedBesideWhatIs) {
  EXPECT_THAT(Fault({.job = "no", .namespace_name = "default"}), HasSubstr("no"));
  EXPECT_EQ(Fault({.job = "j", .namespace_name = "default", .role = "teacher"}),
            "--role: found \"teacher\", expected one of: chief 0-0, worker 0-1, ps 0-0");
  EXPECT_EQ(Fault({.job = "j", .namespace_name = "default", .role = "worker", .index = 2}),
            "job j has no worker-2, only: chief 0-0, worker 0-1, ps 0-0");
  EXPECT_THAT(Fault({.job = "j", .namespace_name = "default", .index = 1}),
              HasSubstr("pod j-worker-1 does not exist: the job is new"));
}

// Istio puts its proxy first if the application must wait for it.
TEST_F(LogsTest, TheMainContainerIsTheOneThatTheOperatorHasNoted) {
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
  const auto found = FindLog(client_, {.job = "j", .namespace_name = "default", .index = 1});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->container, "train");
}

// After a version skew, or an edit that this program refuses, the pods continue and have logs.
TEST_F(LogsTest, OfAJobWhoseSpecCannotBeUsedTheStatusTellsItsReplicas) {
  const kube::Key key{"default", "j"};
  auto job = client_.Get(controller::kTrainingJobKind, key);
  ASSERT_TRUE(job.ok());
  job->at("spec") = {{"replicaSpecs", "none"}};
  ASSERT_TRUE(client_.Update(controller::kTrainingJobKind, *job).ok());
  const LogsOptions leading{.job = "j", .namespace_name = "default"};
  EXPECT_THAT(Fault(leading), HasSubstr("replicaSpecs")) << "it has never had a pod";
  job = client_.Get(controller::kTrainingJobKind, key);
  (*job)["status"]["replicaStatuses"] = {{"Chief", {{"desired", 1}}}, {"Worker", {{"desired", 2}}}};
  ASSERT_TRUE(client_.UpdateStatus(controller::kTrainingJobKind, *job).ok());
  const auto found = FindLog(client_, leading);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, (LogSource{{"default", "j-chief-0"}, "tensorflow"}));
  EXPECT_EQ(Fault({.job = "j", .namespace_name = "default", .role = "ps"}),
            "job j has no ps-0, only: chief 0-0, worker 0-1");
  EXPECT_THAT(Fault({.job = "j", .namespace_name = "default", .role = "worker", .index = 1}),
              HasSubstr("pod j-worker-1 does not exist, and the job's spec cannot be used: "));
}

}  // namespace
}  // namespace lockstep::cli
