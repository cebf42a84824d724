// Creates that the server refuses, or takes long for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "api/v1/names.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::HookedClient;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

// Fails creates of pods with `fault` until it is Ok.
void RefusePods(World& world, const absl::Status& fault) {
  world.client.SetBefore([fault](const HookedClient::Call& call) {
    return call.verb == "create" && call.kind == "Pod" ? fault : absl::OkStatus();
  });
}

TEST(RefusedCreatesTest, ARefusalThatMayPassIsReportedInStatusAndRetried) {
  World world(Job("j").Workers(2).Build());
  RefusePods(world, absl::PermissionDeniedError("create pods j-worker-0: exceeded quota"));
  for (int i = 0; i < 3; ++i) {
    world.SyncAll();
    EXPECT_TRUE(absl::IsPermissionDenied(world.Reconcile().status()));
    world.clock.Advance(seconds(1));
  }
  const api::TrainingJobStatus status = world.Job()->status;
  const api::Condition* running = FindCondition(status, kRunning);
  EXPECT_EQ(running->reason, "CreateFailed");
  EXPECT_EQ(running->message, "create pods j-worker-0: exceeded quota");
  EXPECT_THAT(world.EventReasons(), ElementsAre("CreateFailed"));
  EXPECT_EQ(world.client.Count("update-status", "TrainingJob"), 1) << "told once";
  RefusePods(world, absl::OkStatus());
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
  world.clock.Advance(seconds(10));
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "PodsNotReady");
}

TEST(RefusedCreatesTest, APodThatTheServerFindsInvalidFailsTheJob) {
  World world(Job("j").Workers(1).Build());
  RefusePods(world, absl::InvalidArgumentError("create pods j-worker-0: image: Required value"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  world.Settle();
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "PodRejected");
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->message,
            "create pods j-worker-0: image: Required value");
}

// What has changed is around the job: a webhook adds to its pods, or the server is another version.
TEST(RefusedCreatesTest, AJobThatHasRunOutlivesAReplacementThatTheServerFindsInvalid) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, {}).ok());
  RefusePods(world, absl::InvalidArgumentError("create pods j-worker-1: Pod is invalid"));
  for (int i = 0; i < 10; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(seconds(10));
  }
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed), nullptr);
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "CreateFailed");
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "create pods j-worker-1: Pod is invalid");
  EXPECT_THAT(world.Pods(), SizeIs(1)) << "the healthy pod stays";
  RefusePods(world, absl::OkStatus());
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

// Fails creates of the workers' pods.
void RefuseWorkers(World& world, const absl::Status& fault) {
  world.client.SetBefore([fault](const HookedClient::Call& call) {
    const bool is_worker =
        call.verb == "create" && kube::Label(*call.object, api::kLabelRole) == "worker";
    return is_worker ? fault : absl::OkStatus();
  });
}

// That pods of another role have been accepted says nothing of this role's template.
TEST(RefusedCreatesTest, ARoleWhosePodsAreInvalidFailsAJobThatHasPodsOfAnother) {
  World world(Job("j").Chief().Workers(1).Build());
  RefuseWorkers(world, absl::UnavailableError("no answer (503)"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  ASSERT_THAT(world.Pods(), SizeIs(1));
  world.clock.Advance(seconds(60));
  RefuseWorkers(world, absl::InvalidArgumentError("Pod is invalid"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "PodRejected");
}

TEST(RefusedCreatesTest, ACreateThatFailsForNoFaultOfTheJobIsReportedWhenItFailsAgain) {
  for (const absl::Status& fault :
       {absl::UnavailableError("failed calling webhook: no endpoints available (500)"),
        absl::DeadlineExceededError("no answer within 30 s"),
        absl::ResourceExhaustedError("too many requests (429)")}) {
    World world(Job("j").Workers(1).Build());
    RefusePods(world, fault);
    world.SyncAll();
    EXPECT_FALSE(world.Reconcile().ok());
    EXPECT_EQ(world.client.Count("update-status", "TrainingJob"), 0) << "it may pass";
    world.clock.Advance(seconds(1));
    world.SyncAll();
    EXPECT_FALSE(world.Reconcile().ok());
    const api::TrainingJobStatus status = world.Job()->status;
    EXPECT_EQ(FindCondition(status, kRunning)->reason, "CreateFailed");
    EXPECT_EQ(FindCondition(status, kRunning)->message, std::string(fault.message()));
    EXPECT_THAT(world.EventReasons(), ElementsAre("CreateFailed"));
    RefusePods(world, absl::OkStatus());
    world.clock.Advance(seconds(10));
    world.Settle();
    EXPECT_THAT(world.Pods(), SizeIs(1));
  }
}

TEST(RefusedCreatesTest, AWebhooksRefusalIsNotTakenForASchemas) {
  World world(Job("j").Workers(1).Build());
  RefusePods(world, absl::FailedPreconditionError(
                        "create pods j-worker-0: admission webhook \"x\" denied it (400)"));
  for (int i = 0; i < 3; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(seconds(60));
  }
  EXPECT_EQ(world.Job()->status.state, "Pending");
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "CreateFailed");
  RefusePods(world, absl::OkStatus());
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

// A quota for so many pods.
void SetQuota(World& world, std::size_t pods) {
  world.client.SetBefore([&world, pods](const HookedClient::Call& call) {
    const bool is_pod = call.verb == "create" && call.kind == "Pod";
    if (!is_pod || world.Pods().size() < pods) return absl::OkStatus();
    return absl::PermissionDeniedError("exceeded quota");
  });
}

TEST(RefusedCreatesTest, AQuotaThatIsSpentCostsOneCallATry) {
  World world(Job("j").Workers(200).Build());
  SetQuota(world, 10);
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_THAT(world.Pods(), SizeIs(10));
  EXPECT_EQ(world.client.Count("create", "Pod"), 11) << "it stops at the first refusal";
  for (int i = 0; i < 10; ++i) {
    world.clock.Advance(std::chrono::minutes(1));
    world.SyncAll();
    EXPECT_FALSE(world.Reconcile().ok());
    EXPECT_EQ(world.client.Count("create", "Pod"), 12 + i);
  }
  // Once there is room it starts slowly, and then gets on.
  SetQuota(world, 200);
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(200));
}

TEST(RefusedCreatesTest, AfterARefusalPodsAreCreatedInGrowingSteps) {
  World world(Job("j").Workers(100).Build(), {.parallel_calls = 8});
  SetQuota(world, 0);
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_LE(world.client.Count("create", "Pod"), 8) << "those that were under way together";
  std::mutex mutex;
  int under_way = 0;
  std::vector<int> together;  // at the begin of each create
  world.client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "create" || call.kind != "Pod") return absl::OkStatus();
    {
      const std::lock_guard lock(mutex);
      together.push_back(++under_way);
    }
    std::this_thread::sleep_for(milliseconds(20));  // lets others begin that do not wait for it
    const std::lock_guard lock(mutex);
    --under_way;
    return together.size() <= 3 ? absl::OkStatus() : absl::PermissionDeniedError("exceeded quota");
  });
  world.clock.Advance(std::chrono::minutes(1));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_THAT(world.Pods(), SizeIs(3)) << "steps of 1 and 2, and all of 4 are refused";
  EXPECT_LE(together.size(), 1U + 2U + 4U);
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_LE(together[i], i < 1 ? 1 : i < 3 ? 2 : 4) << "create " << i;
  }
}

TEST(RefusedCreatesTest, ChangesOfThePodsThatThereAreDoNotShortenTheBackOff) {
  World world(Job("j").Workers(20).Build());
  SetQuota(world, 3);
  for (int i = 0; i < 9; ++i) {
    world.SyncAll();
    (void)world.Reconcile();
    world.clock.Advance(std::chrono::minutes(1));
  }
  world.SyncAll();
  (void)world.Reconcile();
  const int tried = world.client.Count("create", "Pod");
  for (int i = 0; i < 3; ++i) {
    world.SetPod("j-worker-" + std::to_string(i), "Running");
    world.SyncAll();
    const auto result = world.Reconcile();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(world.client.Count("create", "Pod"), tried);
    ASSERT_TRUE(result->has_value());
    EXPECT_GT(**result, Duration::zero());
    EXPECT_LE(**result, Duration(seconds(30)));
    world.clock.Advance(seconds(1));
  }
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->reason, "CreateFailed");
}

TEST(RefusedCreatesTest, ALargeJobIsCreatedInSeveralReconciles) {
  World world(Job("j").Workers(100).Build(), {.most_actions = 30, .parallel_calls = 1});
  world.SyncAll();
  EXPECT_EQ(*world.Reconcile(), milliseconds(1));
  EXPECT_THAT(world.Pods(), SizeIs(29)) << "and a service";
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(100));
}

// Each call may wait for its turn (--kube-api-qps), or for a slow webhook.
TEST(RefusedCreatesTest, ASlowServerIsCalledForAMinuteAtATime) {
  World world(Job("j").Workers(20).Build());
  world.client.SetBefore([&world](const HookedClient::Call& call) {
    if (call.verb == "create") world.clock.Advance(seconds(20));
    return absl::OkStatus();
  });
  world.SyncAll();
  EXPECT_EQ(*world.Reconcile(), milliseconds(1));
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "and a service";
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(20));
}

// A webhook or a quota for the accelerators of one role.
TEST(RefusedCreatesTest, ARefusedEvaluatorDelaysNoOtherRole) {
  World world(Job("j").Workers(2).Evaluator().Build(), {.parallel_calls = 1});
  world.client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "create" && call.name == "j-evaluator-0"
               ? absl::PermissionDeniedError("create pods j-evaluator-0: exceeded quota")
               : absl::OkStatus();
  });
  const auto reconcile = [&world] {
    world.SyncAll();
    (void)world.Reconcile();
  };
  for (int i = 0; i < 9; ++i) {
    reconcile();
    world.clock.Advance(seconds(30));
  }
  reconcile();
  ASSERT_THAT(world.Pods(), SizeIs(2));
  const int tried = world.client.Count("create", "Pod");
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, {}).ok());
  reconcile();
  EXPECT_THAT(world.Pods(), SizeIs(2)) << "the Evaluator's back-off is not the workers'";
  EXPECT_EQ(world.client.Count("create", "Pod"), tried + 1);
  EXPECT_EQ(FindCondition(world.Job()->status, kRunning)->message,
            "create pods j-evaluator-0: exceeded quota");
  world.client.SetBefore({});
  world.clock.Advance(seconds(30));
  reconcile();
  EXPECT_THAT(world.Pods(), SizeIs(3));
}

TEST(RefusedCreatesTest, ARefusedPodStopsThoseOfItsRoleAlone) {
  World world(Job("j").Chief().Workers(20).ParameterServers(2).Build(), {.parallel_calls = 1});
  RefuseWorkers(world, absl::PermissionDeniedError("exceeded quota"));
  world.SyncAll();
  EXPECT_FALSE(world.Reconcile().ok());
  EXPECT_THAT(world.Pods(), SizeIs(3));
  EXPECT_EQ(world.client.Count("create", "Pod"), 4) << "one of the workers'";
}

}  // namespace
}  // namespace lockstep::controller
