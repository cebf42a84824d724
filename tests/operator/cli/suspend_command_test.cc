#include "operator/cli/suspend_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/state/kinds.h"
#include "tests/operator/cli/fake_cluster.h"
#include "tests/support/builders.h"
#include "tests/support/hooked_client.h"

namespace lockstep::cli {
namespace {

using controller::kTrainingJobKind;
using lockstep::testing::HookedClient;
using lockstep::testing::Job;
using ::testing::HasSubstr;

class SuspendCommandTest : public ::testing::Test {
 protected:
  SuspendCommandTest() {
    client_.Add(kTrainingJobKind,
                api::TrainingJobToJson(Job("j").Namespace("n").Workers(2).Build()));
  }

  void Change(const std::function<void(kube::Object&)>& change) {
    client_.Modify(kTrainingJobKind, kKey, change);
  }
  SuspendReport Set(bool suspend) {
    auto report = SetSuspend(client_, kKey, suspend);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : SuspendReport();
  }
  kube::Object Spec() { return client_.Objects(kTrainingJobKind).front()["spec"]; }
  int Updates() const { return client_.Count("update", "TrainingJob"); }

  const kube::Key kKey{"n", "j"};
  HookedClient client_;
};

TEST_F(SuspendCommandTest, SetsTheFieldAndSaysWhatItWas) {
  Change([](kube::Object& job) { job["spec"]["suspend"] = false; });
  kube::Object expected = Spec();
  EXPECT_EQ(Set(true).text, "job j: suspend is now true; it was false");
  expected["suspend"] = true;
  EXPECT_EQ(Spec(), expected);
  EXPECT_EQ(Set(false).text, "job j: suspend is now false; it was true");
  expected["suspend"] = false;
  EXPECT_EQ(Spec(), expected);
}

TEST_F(SuspendCommandTest, SetsAFieldThatIsAbsent) {
  Change([](kube::Object& job) { job["spec"].erase("suspend"); });
  EXPECT_EQ(Set(true).text, "job j: suspend is now true; it was absent");
  EXPECT_EQ(Spec()["suspend"], true);
  Change([](kube::Object& job) { job.erase("spec"); });
  EXPECT_EQ(Set(true).text, "job j: suspend is now true; it was absent");
  EXPECT_EQ(Spec(), (kube::Object{{"suspend", true}}));
}

TEST_F(SuspendCommandTest, AJobThatIsAlreadySoIsNotWritten) {
  Change([](kube::Object& job) { job["spec"].erase("suspend"); });
  EXPECT_EQ(Set(false).text, "job j: suspend is already false");
  Change([](kube::Object& job) { job["spec"]["suspend"] = true; });
  EXPECT_EQ(Set(true).text, "job j: suspend is already true");
  EXPECT_EQ(Updates(), 0);
}

TEST_F(SuspendCommandTest, TriesAgainIfTheJobHasChangedMeanwhile) {
  client_.SetBefore([this](const HookedClient::Call& call) {
    if (call.verb == "update") {
      Change([](kube::Object& job) { job["spec"]["suspend"] = true; });
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(Set(true).text, "job j: suspend is already true");
  EXPECT_EQ(Updates(), 1);
}

TEST_F(SuspendCommandTest, SaysThatAQueueDecides) {
  EXPECT_EQ(Set(true).note, "");
  Change([](kube::Object& job) {
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team-queue";
  });
  for (const bool suspend : {true, false}) {
    EXPECT_THAT(Set(suspend).note, HasSubstr("in the queue team-queue: if the operator uses Kueue, "
                                             "the queue decides when the job runs"));
  }
}

TEST_F(SuspendCommandTest, SaysThatTheJobHasEnded) {
  Change([](kube::Object& job) {
    job["status"] = {
        {"state", "Succeeded"},
        {"conditions", {{{"type", "Succeeded"}, {"status", "True"}, {"reason", "R"}}}}};
  });
  EXPECT_EQ(Set(true).note, "job j has ended (Succeeded): suspend is without effect");
}

TEST_F(SuspendCommandTest, AResumeWaitsUntilTheOperatorHasNoticedTheSuspension) {
  const auto await = [this](Duration patience) {
    return AwaitNoticed(client_, kKey, patience, std::chrono::milliseconds(1));
  };
  EXPECT_TRUE(await({})) << "it is not suspended";
  Change([](kube::Object& job) { job["spec"]["suspend"] = true; });
  EXPECT_TRUE(await({})) << "no operator has seen it, so it has no pods";
  const auto say = [this](const std::string& type) {
    Change([&type](kube::Object& job) {
      job["status"]["conditions"].push_back({{"type", type}, {"status", "True"}, {"reason", "R"}});
    });
  };
  say("Created");
  EXPECT_FALSE(await({}));
  int looks = 0;
  client_.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb == "get" && ++looks == 3) say("Suspended");
    return absl::OkStatus();
  });
  EXPECT_TRUE(await(std::chrono::minutes(5)));
  EXPECT_EQ(looks, 3);
}

TEST(RunSuspendTest, ACommandLineThatCannotBeUsedIsNoAnswerOfACluster) {
  const testing::FakeCluster cluster(404, R"({"kind": "Status", "code": 404, "reason": "NotFound",
                                              "message": "no \u001b]0;yours\u0007 job"})");
  ::testing::internal::CaptureStderr();
  for (const auto run : {RunSuspend, RunResume}) {
    EXPECT_EQ(run({.cluster = {.kubeconfig = cluster.kubeconfig()}, .job = "j"}), kExitNoAnswer);
    EXPECT_EQ(run({.cluster = {.kubeconfig = "/no/such"}, .job = "j"}), kExitUsage);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no ?]0;yours? job"));
}

}  // namespace
}  // namespace lockstep::cli
