// How a job's Secret and NetworkPolicy come to be, whatever goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "api/v1/names.h"
#include "operator/controller/children/build_network_policy.h"
#include "operator/controller/children/build_token_secret.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HookedClient;
using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

const Settings kGuarded{.job_tokens = true, .network_policies = true, .parallel_calls = 8};

api::TrainingJob Trains(int workers = 2) {
  return Job("j")
      .Workers(workers)
      .Training()
      .CleanPodPolicy(api::CleanPodPolicy::kNone)
      .RestartScope(api::RestartScope::kInPlace)
      .Build();
}

// Refuses to let the operator read what it has no right to read.
absl::Status RefuseReading(const HookedClient::Call& call) {
  const bool reads = call.verb == "get" || call.verb == "list" || call.verb == "watch";
  const bool guard = call.kind == "NetworkPolicy" ||
                     (call.kind == "Secret" && call.name != testing::kOperatorKey.name);
  return reads && guard ? absl::PermissionDeniedError(call.verb + " " + call.kind)
                        : absl::OkStatus();
}

class GuardsTest : public ::testing::Test {
 protected:
  explicit GuardsTest(const api::TrainingJob& job = Trains()) : world(job, kGuarded) {
    FailCreates({}, absl::OkStatus());
  }

  // Creates of these kinds fail so, before they are done.
  void FailCreates(std::vector<std::string> kinds, absl::Status status) {
    world.client.SetBefore([kinds = std::move(kinds), status](const HookedClient::Call& call) {
      const bool fails = call.verb == "create" && std::ranges::count(kinds, call.kind) > 0;
      return fails ? status : RefuseReading(call);
    });
  }
  int Creates(const std::string& kind) { return world.client.Count("create", kind); }
  const api::Condition& Running() {
    status_ = world.Job()->status;
    return *FindCondition(status_, kRunning);
  }

  World world;

 private:
  api::TrainingJobStatus status_;
};

TEST_F(GuardsTest, TheyAreThereBeforeAnyPod) {
  world.Settle();
  std::uint64_t last_guard = 0, first_pod = 0;
  for (const kube::WatchEvent& event : world.client.JournalSince(0)) {
    const kube::Object& object = event.object;
    const bool guard =
        testing::IsOf(kNetworkPolicyKind, object) || testing::IsOf(kube::kSecretKind, object);
    const std::uint64_t version = testing::VersionOf(object);
    if (guard) last_guard = version;
    if (testing::IsOf(kube::kPodKind, object) && first_pod == 0) first_pod = version;
  }
  EXPECT_GT(last_guard, 0U);
  EXPECT_GT(first_pod, last_guard);
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

TEST_F(GuardsTest, AJobCostsOneWriteMoreForEach) {
  world.Settle();
  for (const char* phase : {"Running", "Succeeded"}) {
    for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, phase);
    world.Settle();
  }
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  EXPECT_EQ(Creates("Secret"), 1 + 1) << "and the operator's key, once for all jobs";
  EXPECT_EQ(Creates("NetworkPolicy"), 1);
  EXPECT_EQ(world.client.Count("update-status", "TrainingJob"), 3);
}

TEST_F(GuardsTest, ThePodsMountTheSecretAndItHoldsTheJobsToken) {
  world.Settle();
  JobTokens tokens(world.client, world.clock, testing::kOperatorKey);
  ASSERT_TRUE(tokens.Load().ok());
  const auto job = *world.Job();
  const kube::Object wanted = BuildTokenSecret(job, *tokens.TextFor(job.metadata.uid), false);
  world.client.SetBefore({});
  const auto secret = world.client.Get(kube::kSecretKind, kube::KeyOf(wanted));
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->at("data"), wanted.at("data"));
  for (const kube::Object& pod : world.Pods()) {
    EXPECT_EQ(ObservePod(pod)->has_token, true);
    EXPECT_EQ(ObservePod(pod)->has_network_policy, true);
    EXPECT_THAT(pod.dump(), HasSubstr(kube::Name(wanted)));
  }
}

TEST_F(GuardsTest, AReplacedPodFindsThemEvenIfSomebodyHasDeletedThem) {
  world.Settle();
  const std::string name = TokenSecretName(*world.Job(), false);
  ASSERT_TRUE(world.client.Delete(kube::kSecretKind, {"default", name}, {}).ok());
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  world.client.SetBefore({});
  EXPECT_TRUE(world.client.Get(kube::kSecretKind, {"default", name}).ok());
}

TEST_F(GuardsTest, AReplacedPodThatHadBegunCostsNoCreateButItsOwn) {
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  const std::size_t before = world.client.writes().size();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  const auto writes = world.client.writes();
  EXPECT_EQ(std::count_if(writes.begin() + static_cast<std::ptrdiff_t>(before), writes.end(),
                          [](const HookedClient::Call& call) {
                            return call.verb == "create" && call.kind != "Event";
                          }),
            1);
  EXPECT_EQ(Creates("NetworkPolicy") + Creates("Service"), 2);
}

TEST_F(GuardsTest, WhatExistsUnderTheirNamesIsTakenForThemAndNotRead) {
  world.Settle();
  world.RestartOperator();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  EXPECT_EQ(Creates("NetworkPolicy"), 2) << "the second found the first";
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_THAT(world.EventReasons(), IsEmpty());
}

// A right that was taken away, or a quota, which is asked before the server finds the name taken.
TEST_F(GuardsTest, APodIsReplacedThoughTheyMayNotBeCreatedAgain) {
  world.Settle();
  world.RestartOperator();
  FailCreates({"Secret", "NetworkPolicy"}, absl::PermissionDeniedError("exceeded quota"));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  EXPECT_EQ(Creates("NetworkPolicy"), 2) << "it was tried";
  ASSERT_THAT(world.Pods(), SizeIs(2));
  for (const kube::Object& pod : world.Pods()) {
    EXPECT_TRUE(ObservePod(pod)->has_token && ObservePod(pod)->has_network_policy);
  }
}

// Whose operator knew of neither, and the next one has no right to them.
TEST_F(GuardsTest, ARunningJobWithoutThemGetsNeitherForAReplacedPod) {
  world.RestartOperator({.parallel_calls = 8});
  world.Settle();
  world.RestartOperator(kGuarded);
  FailCreates({"Secret", "NetworkPolicy"}, absl::PermissionDeniedError("forbidden"));
  world.client.Remove(kube::kPodKind, {"default", "j-worker-1"});
  world.Settle();
  EXPECT_EQ(Creates("NetworkPolicy") + world.client.Count("create", "Secret"), 0);
  ASSERT_THAT(world.Pods(), SizeIs(2));
  for (const kube::Object& pod : world.Pods()) {
    EXPECT_FALSE(ObservePod(pod)->has_token || ObservePod(pod)->has_network_policy);
  }
}

TEST_F(GuardsTest, WithoutTheRightToThemThereIsNoPodAndTheJobSaysWhy) {
  for (const char* kind : {"Secret", "NetworkPolicy"}) {
    World other(Trains(), kGuarded);
    other.client.SetBefore([kind](const HookedClient::Call& call) {
      return call.verb == "create" && call.kind == kind
                 ? absl::PermissionDeniedError(std::string("create: forbidden: ") + kind)
                 : RefuseReading(call);
    });
    other.SyncAll();
    EXPECT_TRUE(absl::IsPermissionDenied(other.Reconcile().status())) << kind;
    EXPECT_THAT(other.Pods(), IsEmpty());
    const api::TrainingJobStatus status = other.Job()->status;
    EXPECT_EQ(FindCondition(status, kRunning)->reason, "CreateFailed");
    EXPECT_THAT(FindCondition(status, kRunning)->message,
                HasSubstr(std::string("create: forbidden: ") + kind));
    EXPECT_THAT(other.EventReasons(), ElementsAre("CreateFailed"));
    other.client.SetBefore(RefuseReading);
    other.clock.Advance(seconds(1));
    other.Settle();
    EXPECT_THAT(other.Pods(), SizeIs(2)) << kind << ", once it is granted";
  }
}

class GuardsOfAGangTest : public GuardsTest {
 protected:
  GuardsOfAGangTest()
      : GuardsTest(Job("j").Workers(2).Training().RestartScope(api::RestartScope::kGang).Build()) {}

  // One more attempt; creates of guards are answered so.
  void FailTheGang(const absl::Status& status) {
    for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
    world.Settle();
    FailCreates({"Secret", "NetworkPolicy"}, status);
    world.SetPod("j-worker-0", "Failed", 137);
    for (int i = 0; i < 10; ++i) {
      world.SyncAll();
      (void)world.Reconcile();
    }
  }
  std::size_t PodsOfAttempt(int attempt) {
    const auto pods = world.Pods();
    return static_cast<std::size_t>(std::ranges::count_if(
        pods, [attempt](const kube::Object& pod) { return ObservePod(pod)->attempt == attempt; }));
  }
};

// The server asks the quota before it finds the name taken.
TEST_F(GuardsOfAGangTest, AFullQuotaKeepsNoAttemptFromItsPodsIfTheyAreKnownToExist) {
  world.Settle();
  FailTheGang(absl::PermissionDeniedError("create secret: exceeded quota: q (403 Forbidden)"));
  EXPECT_EQ(PodsOfAttempt(1), 2U);
}

TEST_F(GuardsOfAGangTest, ARightThatWasTakenAwayKeepsTheNextAttemptFromItsPods) {
  world.Settle();
  FailTheGang(absl::PermissionDeniedError("create secret: is forbidden (403 Forbidden)"));
  EXPECT_EQ(PodsOfAttempt(1), 0U);
  EXPECT_EQ(Running().reason, "CreateFailed");
}

TEST_F(GuardsOfAGangTest, AFullQuotaKeepsTheFirstPodsFromAJobAndTheJobSaysWhy) {
  FailCreates({"Secret"}, absl::PermissionDeniedError("exceeded quota: q (403 Forbidden)"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_EQ(Running().reason, "CreateFailed");
  EXPECT_THAT(Running().message, HasSubstr("exceeded quota: q"));
}

TEST_F(GuardsTest, AnOperatorThatMayNotReadItsKeyReportsItInTheJob) {
  world.client.SetBefore([](const HookedClient::Call& call) {
    return call.kind == "Secret" && call.verb == "get"
               ? absl::PermissionDeniedError("get secrets: forbidden")
               : absl::OkStatus();
  });
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_EQ(Running().reason, "CreateFailed");
  EXPECT_THAT(Running().message, HasSubstr("no key to make the job's token of"));
  EXPECT_THAT(world.Pods(), IsEmpty());
}

// The Secret of an operator that took no reports has no bearer, and cannot be changed.
TEST(ReportBearerTest, AJobGetsItOnceNoPodIsThereThatHasNot) {
  World world(
      Job("j")
          .Workers(2)
          .RestartScope(api::RestartScope::kGang)
          .With([](api::TrainingJob& job) { job.spec.job_token = api::TokenMount::kMounted; })
          .Build(),
      {.job_tokens = true, .parallel_calls = 1});
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.RestartOperator({.job_tokens = true, .progress_url = "http://op", .parallel_calls = 1});
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.Settle();
  const auto secret_of = [&world](const kube::Object& pod) {
    const std::string name =
        pod.at("metadata").at("annotations").at(api::kAnnotationTokenSecret).get<std::string>();
    const auto secret = world.client.Get(kube::kSecretKind, {"default", name});
    EXPECT_TRUE(secret.ok()) << secret.status();
    return *secret;
  };
  const auto tells_reports = [](const kube::Object& pod) {
    return pod.dump().find("KUBEFLOW_TRAINER_SERVER_TOKEN") != std::string::npos;
  };
  ASSERT_THAT(world.Pods(), SizeIs(2));
  for (const kube::Object& pod : world.Pods()) {
    EXPECT_FALSE(secret_of(pod).at("data").contains("report-bearer")) << "as its peer";
    EXPECT_FALSE(tells_reports(pod));
  }
  for (const kube::Object& pod : world.Pods()) {
    world.client.Remove(kube::kPodKind, kube::KeyOf(pod));
  }
  world.Settle();
  ASSERT_THAT(world.Pods(), SizeIs(2));
  for (const kube::Object& pod : world.Pods()) {
    EXPECT_TRUE(secret_of(pod).at("data").contains("report-bearer"));
    EXPECT_EQ(tells_reports(pod), kube::Name(pod) == "j-worker-0");
  }
}

// Two versions of the trainer in one group need not understand each other.
TEST(TrainerImageTest, APodThatIsReplacedAfterAnUpgradeHasItsPeersTrainer) {
  World world(Job("j").Workers(2).Training().Build(),
              {.trainer_images = {"trainer:1", "trainer:1-cuda"}});
  world.Settle();
  const auto image = [&world](const char* pod) {
    return world.client.Get(kube::kPodKind, {"default", pod})->at("spec")["containers"][0]["image"];
  };
  const auto lose = [&world](const char* pod) {
    const kube::Key key{"default", pod};
    const std::string uid = kube::Uid(*world.client.Get(kube::kPodKind, key));
    ASSERT_TRUE(world.client.ForceDelete(kube::kPodKind, key, {.uid = uid}).ok());
    world.SyncAll();
    world.Settle();
    world.SetPod(pod, "Running");
    world.SyncAll();
  };
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.RestartOperator({.trainer_images = {"trainer:2", "trainer:2-cuda"}});
  lose("j-worker-1");
  EXPECT_EQ(image("j-worker-1"), "trainer:1");
  lose("j-worker-0");  // and also once all were replaced
  EXPECT_EQ(image("j-worker-0"), "trainer:1");
  world.SetSuspend(true);
  world.Settle();
  world.SetSuspend(false);
  world.Settle();
  EXPECT_EQ(image("j-worker-0"), "trainer:2");
  EXPECT_EQ(image("j-worker-1"), "trainer:2");
}

// The chief computes on a GPU, the worker does not.
TEST(TrainerImageTest, PodsThatAskForGpusHaveTheImageForThem) {
  kube::Object on_gpu = {{"spec", {{"containers", {{{"name", "trainer"}}}}}}};
  on_gpu["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1;
  World world(Job("j").Chief().Workers(1).Training().PodTemplate(api::Role::kChief, on_gpu).Build(),
              {.trainer_images = {"trainer:1", "trainer:1-cuda"}});
  world.Settle();
  const auto image = [&world](const char* pod) {
    return world.client.Get(kube::kPodKind, {"default", pod})->at("spec")["containers"][0]["image"];
  };
  EXPECT_EQ(image("j-chief-0"), "trainer:1-cuda");
  EXPECT_EQ(image("j-worker-0"), "trainer:1");
  for (const char* pod : {"j-chief-0", "j-worker-0"}) world.SetPod(pod, "Running");
  world.RestartOperator({.trainer_images = {"trainer:2", "trainer:2-cuda"}});
  const kube::Key key{"default", "j-chief-0"};
  const std::string uid = kube::Uid(*world.client.Get(kube::kPodKind, key));
  ASSERT_TRUE(world.client.ForceDelete(kube::kPodKind, key, {.uid = uid}).ok());
  world.SyncAll();
  world.Settle();
  EXPECT_EQ(image("j-chief-0"), "trainer:1-cuda") << "the worker's version, of the other kind";
}

TEST(TrainerImageTest, TheImageThatAJobNamesIsItsOwn) {
  World world(
      Job("j").Workers(2).Training().PodTemplate(api::Role::kWorker, testing::Template()).Build(),
      {.trainer_images = {"trainer:1", "trainer:1-cuda"}});
  world.Settle();
  const kube::Object pod = *world.client.Get(kube::kPodKind, {"default", "j-worker-0"});
  EXPECT_NE(pod.at("spec")["containers"][0]["image"], "trainer:1");
  EXPECT_EQ(pod.at("metadata")["annotations"][api::kAnnotationTrainerImage], "");
}

TEST_F(GuardsTest, AfterALostAnswerTheSameIsCreatedAgain) {
  std::atomic<int> lost = 0;  // calls are made side by side
  world.client.SetAfter([&lost](const HookedClient::Call& call) {
    const bool guard = call.kind == "NetworkPolicy" || call.name.starts_with("j-token-");
    return guard && lost++ < 2 ? absl::UnavailableError("the answer is lost") : absl::OkStatus();
  });
  for (int i = 0; i < 2; ++i) {
    world.SyncAll();
    EXPECT_TRUE(absl::IsUnavailable(world.Reconcile().status()));
    EXPECT_THAT(world.Pods(), IsEmpty());
    world.clock.Advance(seconds(1));
    if (lost == 2) break;
  }
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  EXPECT_THAT(world.client.Objects(kNetworkPolicyKind), SizeIs(1));
  EXPECT_THAT(world.client.Objects(kube::kSecretKind), SizeIs(2));
}

TEST_F(GuardsTest, WhilePodsAreRefusedTheyAreNotCreatedAgain) {
  FailCreates({"Pod"}, absl::PermissionDeniedError("exceeded quota"));
  for (int i = 0; i < 5; ++i) {
    world.SyncAll();
    EXPECT_FALSE(world.Reconcile().ok());
    world.clock.Advance(seconds(60));
  }
  EXPECT_EQ(Creates("NetworkPolicy"), 1);
  FailCreates({}, absl::OkStatus());
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

TEST_F(GuardsTest, AJobWithoutTrainingCostsNothingMore) {
  World other(Job("j").Workers(2).Build(), kGuarded);
  other.Settle();
  EXPECT_THAT(other.Pods(), SizeIs(2));
  EXPECT_EQ(other.client.Count("get", "Secret") + other.client.Count("create", "Secret") +
                other.client.Count("create", "NetworkPolicy"),
            0);
}

}  // namespace
}  // namespace lockstep::controller
