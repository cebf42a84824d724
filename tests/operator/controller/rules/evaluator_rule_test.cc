#include "operator/controller/rules/evaluator_rule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Evicted;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::PodState;
using testing::Seen;
using ::testing::SizeIs;

const DeletePod kDeleted{"j-evaluator-0", "j-evaluator-0-uid"};

// Trains, and its Evaluator's pod is in this state.
Seen Trains(const PodState& evaluator, const testing::JobBuilder& job = Job("j").Workers(2)) {
  auto with_evaluator = job;
  Seen seen(with_evaluator.Evaluator().Training());
  return seen.Running().Worker(0, kReady).Worker(1, kReady).Pod(Role::kEvaluator, 0, evaluator);
}

// Adds a new pod of the Evaluator.
void AddPod(Seen& seen, const PodState& state) {
  seen.Pod(Role::kEvaluator, 0, [&state](ObservedPod& pod) {
    static int count = 0;
    pod.uid = fmt::format("evaluator-{}", ++count);
    state(pod);
  });
}
void ReplacePod(Seen& seen, const PodState& state) {
  seen.With([](Observed& observed) { observed.pods.pop_back(); });
  AddPod(seen, state);
}
std::string EvaluatorUid(Seen& seen) {
  return seen.Build().pods.back().uid;
}
std::vector<std::string> DeletedPods(const Plan& plan) {
  std::vector<std::string> uids;
  for (const Action& action : plan.actions) {
    if (const auto* deleted = std::get_if<DeletePod>(&action)) uids.push_back(deleted->uid);
  }
  return uids;
}

TEST(EvaluatorRuleTest, ItIsReplacedAloneEvenInAGang) {
  Seen seen = Trains(Exited(137), Job("j").Workers(2).RestartScope(api::RestartScope::kGang));
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.attempt, 0);
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kDeleted));
}

TEST(EvaluatorRuleTest, ItsFailuresCostTheJobNothingAndAreReported) {
  Seen seen = Trains(Exited(137, "OOMKilled"), Job("j").Workers(2).BackoffLimit(0));
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());  // counted first, acted on when that is written
  EXPECT_EQ(plan.status.state, "Running");
  EXPECT_EQ(plan.status.restarts, (api::RestartCounts{.evaluator = 1}));
  EXPECT_EQ(plan.status.restart_count, 0) << "counted with the next status";
  EXPECT_EQ(plan.status.failure->role, "evaluator");
  EXPECT_EQ(plan.status.failure->reason, "OOMKilled");
  EXPECT_FALSE(plan.status.next_retry_time) << "no other replica is delayed";
  ASSERT_EQ(plan.events.size(), 1U);
  EXPECT_EQ(plan.events[0].reason, "EvaluatorFailed");
  EXPECT_EQ(plan.events[0].message,
            "evaluator-0 exited with code 137 (OOMKilled); it starts again (failures of the "
            "Evaluator: 1, which do not count against backoffLimit)");
  EXPECT_EQ(seen.Write().Plan().status.restart_count, 1);
}

TEST(EvaluatorRuleTest, ItBacksOffAndLeavesItsFailedPodMeanwhile) {
  Seen seen = Trains(Exited(137));
  EXPECT_THAT(seen.Write().Plan().actions, ElementsAre(kDeleted)) << "the first time at once";
  ReplacePod(seen, Exited(137));
  EXPECT_EQ(seen.Plan().events[0].message,
            "evaluator-0 exited with code 137; it starts again in 10s (failures of the "
            "Evaluator: 2, which do not count against backoffLimit)");
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Later(seconds(9)).Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(1)));
  EXPECT_THAT(DeletedPods(seen.Later(seconds(1)).Plan()), ElementsAre(EvaluatorUid(seen)));
}

// A kubelet may reject each pod, and a descheduler delete it. An older CRD drops
// restarts.evaluator.
TEST(EvaluatorRuleTest, LossesInARowBackOffWhateverTheirCause) {
  const PodState rejected = [](ObservedPod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.reason = "OutOfcpu";
  };
  for (const PodState& lost : {Exited(137), rejected, kBeingDeleted, Evicted()}) {
    Seen seen = Trains(lost);
    for (const auto delay : {seconds(0), seconds(10), seconds(20), seconds(40)}) {
      seen.Write().With([](Observed& observed) {
        observed.job.status.restarts.evaluator = 0;
        observed.pods.pop_back();  // whoever deletes it
      });
      if (delay > seconds(0)) {
        EXPECT_FALSE(MakesPods(seen.Later(delay - seconds(1)).Plan()));
        EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(1)));
        seen.Later(seconds(1));
      }
      EXPECT_TRUE(MakesPods(seen.Plan()));
      AddPod(seen, lost);
    }
  }
}

TEST(EvaluatorRuleTest, APodThatIsSimplyGoneIsLostToo) {
  Seen seen = Trains(kReady);
  seen.Write();
  for (const bool replaced : {true, false}) {
    seen.With([](Observed& observed) { observed.pods.pop_back(); });
    EXPECT_EQ(MakesPods(seen.Plan()), replaced);
    AddPod(seen, kReady);
    EXPECT_FALSE(MakesPods(seen.Plan()));
  }
}

TEST(EvaluatorRuleTest, ManyLossesDelayItByTheLongestBackOff) {
  Seen seen = Trains(Exited(137));
  for (int i = 0; i < 100; ++i) {
    seen.Write();
    ReplacePod(seen, Exited(137));
  }
  EXPECT_EQ(seen.Write().Build().job.status.state, "Running");
  EXPECT_THAT(seen.Later(minutes(5) - seconds(1)).Plan().actions, IsEmpty());
  EXPECT_EQ(DeletedPods(seen.Later(seconds(1)).Plan()).size(), 1u);
}

TEST(EvaluatorRuleTest, ATrainedJobDoesNotWaitForOneThatIsNotDueInTime) {
  Seen seen = Trains(Exited(137));
  for (int i = 0; i < 10; ++i) {
    seen.Write();
    ReplacePod(seen, Exited(137));
  }
  seen.Write().With([](Observed& observed) { Exited(0, "", observed.now)(observed.pods[0]); });
  EXPECT_EQ(seen.Plan().status.state, "Succeeded");
}

TEST(EvaluatorRuleTest, OneThatHasRunForLongStartsAgainAtOnce) {
  Seen seen = Trains(Exited(137));
  for (const PodState& state : {Exited(137), kReady}) {
    seen.Write().Later(seconds(10));
    ReplacePod(seen, state);
  }
  seen.Plan();
  seen.Later(minutes(10)).With([](Observed& observed) { Exited(137)(observed.pods.back()); });
  EXPECT_EQ(DeletedPods(seen.Write().Plan()).size(), 1u);
}

TEST(EvaluatorRuleTest, TheNextAttemptForgetsItsLosses) {
  Seen seen = Trains(Exited(137));
  seen.Write();
  ReplacePod(seen, Exited(137));
  EXPECT_TRUE(seen.Write().Build().evaluator_due);
  seen.With([](Observed& observed) { ++observed.job.status.attempt; });
  EXPECT_FALSE(seen.Build().evaluator_due) << "a gang has a back-off of its own";
}

TEST(EvaluatorRuleTest, ADisruptionIsCountedAsOne) {
  Seen seen = Trains(kBeingDeleted);
  seen.With([](Observed& observed) { observed.job.status.restarts.evaluator = 9; });
  EXPECT_EQ(seen.Plan().events[0].message,
            "the pod of evaluator-0 is being deleted; it starts again (disruptions: 1)");
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.restarts,
            (api::RestartCounts{.disruption = 1, .evaluator = 9}));
  seen.With([](Observed& observed) { observed.pods.pop_back(); });
  ASSERT_EQ(seen.Plan().actions.size(), 1u);
  EXPECT_EQ(std::get<CreatePod>(seen.Plan().actions[0]).role, Role::kEvaluator);
}

TEST(EvaluatorRuleTest, AKubeletThatRejectsEachPodGetsFew) {
  testing::World world(Job("j").Workers(1).Evaluator().Build());
  std::set<std::string> uids;
  for (int second = 0; second < 600; ++second) {
    world.Settle();
    for (const kube::Object& pod : world.Pods()) {
      if (kube::Name(pod) != "j-evaluator-0") continue;
      uids.insert(kube::Uid(pod));
      world.client.Modify(kube::kPodKind, {"default", "j-evaluator-0"}, [](kube::Object& rejected) {
        rejected["status"] = {{"phase", "Failed"}, {"reason", "OutOfcpu"}};
      });
    }
    world.clock.Advance(seconds(1));
  }
  EXPECT_EQ(uids.size(), 7u) << "the first, and after 0, 10, 30, 70, 150 and 310 s";
  EXPECT_EQ(world.Job()->status.restarts.evaluator, 0);
}

// The job was suspended, edited and resumed, and the pod of then is still there.
TEST(EvaluatorRuleTest, ThePodOfOneThatTheJobHasNoMoreIsDeleted) {
  Seen seen = Trains(Exited(137));
  seen.Write().With(
      [](Observed& observed) { observed.job.spec.replica_specs.erase(Role::kEvaluator); });
  EXPECT_FALSE(IsEvaluatorGone(seen.Build()));
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kDeleted));
  seen.With([](Observed& observed) { observed.job.status.counted_pods.clear(); });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kDeleted)) << "its failure counts no more";
}

// Its test data cannot be read, say. The failed pod has the log that says so.
TEST(EvaluatorRuleTest, APermanentFailureEndsEvaluationButNotTheJob) {
  Seen seen = Trains(Exited(11));
  EXPECT_FALSE(IsEvaluatorGone(Trains(Exited(137)).Build()));
  EXPECT_TRUE(IsEvaluatorGone(seen.Build()));
  ASSERT_EQ(seen.Plan().events.size(), 1U);
  EXPECT_EQ(seen.Plan().events[0].message,
            "evaluator-0 exited with code 11, which is not retried; the job goes on without "
            "evaluation");
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_EQ(seen.Build().job.status.failure->exit_code, 11);
  EXPECT_EQ(seen.Build().job.status.restarts, api::RestartCounts{});
  const Plan later = seen.Later(minutes(60)).Plan();
  EXPECT_THAT(later.actions, IsEmpty());
  EXPECT_THAT(later.events, IsEmpty()) << "said once";
}

TEST(EvaluatorRuleTest, ASidecarOfOneThatHasFailedForGoodHoldsNoResources) {
  Seen seen = Trains([](ObservedPod& pod) {
    Exited(11)(pod);
    pod.phase = PodPhase::kRunning;
    pod.failed_since = Time(std::chrono::seconds(1'700'000'000 - 9));
  });
  seen.Write();
  EXPECT_THAT(seen.Plan().actions, IsEmpty()) << "without a sidecar it ends by itself";
  EXPECT_EQ(seen.Plan().requeue_after, std::chrono::seconds(1));
  seen.With([](Observed& observed) {
    observed.pods.back().failed_since = observed.now - std::chrono::seconds(10);
  });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(kDeleted));
  seen.With([](Observed& observed) { observed.pods.back().being_deleted = true; });
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  seen.With([](Observed& observed) { observed.pods.pop_back(); });
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty()) << "it is not created again";
  EXPECT_TRUE(IsEvaluatorGone(seen.Build()));
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  seen.With([](Observed& observed) { Exited(0)(observed.pods[0]); });
  EXPECT_EQ(seen.Plan().status.state, "Succeeded") << "it is not waited for";
}

// As when a replica that trains evaluates, and finds the same.
TEST(EvaluatorRuleTest, OneThatFindsThatTheRunHasDivergedFailsTheJob) {
  const Plan plan = Trains(Exited(20)).Plan();
  ASSERT_EQ(plan.status.state, "Failed");
  EXPECT_EQ(FindCondition(plan.status, kFailed)->message,
            "evaluator-0 exited with code 20, which is not retried");
  ASSERT_TRUE(plan.status.failure.has_value());
  EXPECT_EQ(plan.status.failure->role, "evaluator");
  EXPECT_EQ(plan.status.failure->exit_code, 20) << "from which the metric is made";
  ASSERT_EQ(plan.events.size(), 1U);
  EXPECT_EQ(plan.events[0].reason, "ReplicaFailed");

  Seen own = Seen(Job("j").Workers(1).Evaluator());
  own.Running().Worker(0, kReady).Pod(Role::kEvaluator, 0, Exited(20));
  EXPECT_EQ(own.Plan().status.state, "Running") << "of another image, the code says nothing";
}

TEST(EvaluatorRuleTest, WhatItDoesNotSeeIsReportedUntilItDoes) {
  Seen seen = Trains(kReady);
  seen.With([](Observed& observed) { observed.group.evaluator_misses_checkpoints = true; });
  ASSERT_EQ(seen.Plan().events.size(), 1U);
  EXPECT_EQ(seen.Plan().events[0].reason, "CheckpointsNotSeen");
  seen.Write();
  const api::Condition* running = FindCondition(seen.Build().job.status, kRunning);
  EXPECT_TRUE(IsTrue(seen.Build().job.status, kRunning));
  EXPECT_EQ(running->reason, "CheckpointsNotSeen");
  EXPECT_EQ(running->message,
            "the Evaluator does not see the checkpoints that the leading pod saves: is "
            "checkpoint.directory on a volume that both pods mount?");
  EXPECT_THAT(seen.Plan().events, IsEmpty()) << "said once";
  const auto reason_if = [](Seen changed, const std::function<void(Observed&)>& change) {
    const Plan plan = changed.With(change).Plan();
    EXPECT_THAT(plan.events, IsEmpty());
    return FindCondition(plan.status, kRunning)->reason;
  };
  EXPECT_EQ(reason_if(seen, [](Observed& observed) { observed.group = {}; }), "CheckpointsNotSeen")
      << "the operator, say, has started again";
  EXPECT_EQ(reason_if(seen,
                      [](Observed& observed) {
                        observed.job.status.next_retry_time = observed.now + seconds(10);
                      }),
            "CheckpointsNotSeen")
      << "a worker in back-off comes again by itself, the volume does not";
  EXPECT_EQ(
      reason_if(seen,
                [](Observed& observed) { observed.group.evaluator_misses_checkpoints = false; }),
      "AllReplicasReady");
  EXPECT_EQ(reason_if(seen, [](Observed& observed) { observed.pods.pop_back(); }),
            "AllReplicasReady")
      << "there is no Evaluator";
}

TEST(EvaluatorRuleTest, RestartsByTheKubeletCostNothingEither) {
  const PodState restarted = [](ObservedPod& pod) {
    kReady(pod);
    pod.restart_count = 9;
  };
  Seen seen =
      Trains(restarted, Job("j").Workers(2).BackoffLimit(0).RestartScope(api::RestartScope::kPod));
  EXPECT_EQ(seen.Plan().status.state, "Running");
  seen.With([](Observed& observed) { Exited(137)(observed.pods.back()); }).Write();
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{.evaluator = 10}));
  EXPECT_EQ(seen.Plan().status.restart_count, 10) << "each once";
}

}  // namespace
}  // namespace lockstep::controller
