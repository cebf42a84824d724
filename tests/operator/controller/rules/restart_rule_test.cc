#include "operator/controller/rules/restart_rule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/names.h"
#include "operator/controller/rules/parts/blame.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::RestartPolicy;
using api::RestartScope;
using api::Role;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Evicted;
using testing::EvictedForItsOwnLimit;
using testing::Exited;
using testing::ExitedBefore;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::PodState;
using testing::Seen;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

testing::JobBuilder Gang() {
  return Job("j").Workers(2).RestartScope(RestartScope::kGang);
}
testing::JobBuilder InPlace() {
  return Job("j").Workers(2).RestartScope(RestartScope::kInPlace);
}

TEST(RestartRuleTest, OfIndependentReplicasOnlyTheLostOneStartsAgain) {
  Seen seen(Job("j").Workers(3).Strategy(api::StrategyType::kIndependent));
  seen.Running().Worker(0, kReady).Worker(1, Exited(137)).Worker(2, kReady).Write();
  EXPECT_EQ(seen.Build().job.status.attempt, 0);
  EXPECT_EQ(seen.Build().job.status.restarts.application, 1);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
}

TEST(RestartRuleTest, PodFailuresAreClassified) {
  struct Case {
    const char* name;
    RestartPolicy policy;
    PodState state;
    PodFailureCause expected;
  };
  const PodState target = [](ObservedPod& pod) {
    Exited(137)(pod);
    pod.disruption_target = true;
  };
  const auto deleted_at = [](int seconds_after_exit) -> PodState {
    return [=](ObservedPod& pod) {
      const Time exit = Time(seconds(1'700'000'000));
      Exited(1, "Error", exit)(pod);
      pod.being_deleted = true;
      pod.deletion = Deletion{exit + seconds(seconds_after_exit + 30), 30};
    };
  };
  // This process saw the failure so many seconds after the deletion.
  const auto seen_after = [](int seconds_after_deletion, const PodState& state) -> PodState {
    return [=](ObservedPod& pod) {
      state(pod);
      pod.deleting_since = Time(seconds(1'700'000'000));
      pod.failed_since = *pod.deleting_since + seconds(seconds_after_deletion);
    };
  };
  const PodState no_code = [](ObservedPod& pod) { pod.phase = PodPhase::kFailed; };
  const auto refused = [](std::string reason) -> PodState {
    return [reason = std::move(reason)](ObservedPod& pod) {
      pod.phase = PodPhase::kFailed;
      pod.reason = reason;
    };
  };
  const Case cases[] = {
      {"1 is permanent", RestartPolicy::kExitCode, Exited(1), PodFailureCause::kPermanent},
      {"127 is permanent", RestartPolicy::kExitCode, Exited(127), PodFailureCause::kPermanent},
      {"128 is retried", RestartPolicy::kExitCode, Exited(128), PodFailureCause::kApplication},
      {"137 is retried", RestartPolicy::kExitCode, Exited(137), PodFailureCause::kApplication},
      {"OnFailure retries 1", RestartPolicy::kOnFailure, Exited(1), PodFailureCause::kApplication},
      {"Always retries 1", RestartPolicy::kAlways, Exited(1), PodFailureCause::kApplication},
      {"Never retries nothing", RestartPolicy::kNever, Exited(137), PodFailureCause::kPermanent},
      {"no exit code is retried", RestartPolicy::kExitCode, no_code, PodFailureCause::kApplication},
      {"eviction is free", RestartPolicy::kExitCode, Evicted(), PodFailureCause::kDisruption},
      {"even with Never", RestartPolicy::kNever, Evicted(), PodFailureCause::kDisruption},
      {"too much storage is charged", RestartPolicy::kExitCode, EvictedForItsOwnLimit(),
       PodFailureCause::kApplication},
      {"whatever the program then says", RestartPolicy::kExitCode, EvictedForItsOwnLimit(1),
       PodFailureCause::kApplication},
      {"and never retried with Never", RestartPolicy::kNever, EvictedForItsOwnLimit(),
       PodFailureCause::kPermanent},
      {"no room on the node", RestartPolicy::kNever, refused("OutOfexample.com/fpga"),
       PodFailureCause::kDisruption},
      {"a taint that is gone", RestartPolicy::kNever, refused("TaintToleration"),
       PodFailureCause::kDisruption},
      {"a port that is taken", RestartPolicy::kExitCode, refused("NodePorts"),
       PodFailureCause::kDisruption},
      {"a node that its kubelet does not know yet", RestartPolicy::kExitCode,
       refused("InvalidNodeInfo"), PodFailureCause::kDisruption},
      {"another system", RestartPolicy::kNever, refused("PodOSNotSupported"),
       PodFailureCause::kPermanent},
      {"disruption target", RestartPolicy::kExitCode, target, PodFailureCause::kDisruption},
      {"drain", RestartPolicy::kExitCode, kBeingDeleted, PodFailureCause::kDisruption},
      {"asked to end first", RestartPolicy::kExitCode, deleted_at(-5),
       PodFailureCause::kDisruption},
      {"within the second", RestartPolicy::kExitCode, deleted_at(0), PodFailureCause::kDisruption},
      {"its node's clock may be behind", RestartPolicy::kExitCode, deleted_at(5),
       PodFailureCause::kDisruption},
      {"deleted after its end", RestartPolicy::kExitCode, deleted_at(6),
       PodFailureCause::kPermanent},
      {"and retried", RestartPolicy::kOnFailure, deleted_at(6), PodFailureCause::kApplication},
      {"seen to fail first", RestartPolicy::kExitCode, seen_after(-1, deleted_at(0)),
       PodFailureCause::kPermanent},
      {"of a node that came back", RestartPolicy::kNever,
       [](ObservedPod& pod) {
         Exited(255)(pod);
         pod.termination->reason = "Unknown";
       },
       PodFailureCause::kDisruption},
      {"that its kubelet does not know", RestartPolicy::kExitCode,
       [](ObservedPod& pod) {
         Exited(137)(pod);
         pod.termination->reason = "ContainerStatusUnknown";
       },
       PodFailureCause::kDisruption},
      {"with 255", RestartPolicy::kNever, Exited(255), PodFailureCause::kPermanent},
      {"seen to be deleted first", RestartPolicy::kExitCode, seen_after(1, deleted_at(0)),
       PodFailureCause::kDisruption},
  };
  for (const Case& c : cases) {
    const Observed seen =
        Seen(Gang().RestartPolicy(Role::kWorker, c.policy)).Worker(0, c.state).Build();
    EXPECT_EQ(Classify(seen.job, seen.pods[0]), c.expected) << c.name;
  }
}

// They end when their worker has, and an image may call that a failure.
TEST(RestartRuleTest, AServerThatFailsAfterTheWorkersSuccessRestartsNoGang) {
  for (const auto policy : {api::SuccessPolicy::kChiefOrWorker0, api::SuccessPolicy::kAllWorkers}) {
    for (const bool pods_are_gone : {false, true}) {
      Seen seen(Job("j").Workers(2).ParameterServers(1).SuccessPolicy(policy).RestartScope(
          api::RestartScope::kGang));
      seen.Running().Pod(Role::kParameterServer, 0, Exited(137));
      seen.Worker(0, Exited(0)).Worker(1, Exited(0));
      if (pods_are_gone) {
        seen.With([](Observed& observed) {
          observed.job.status.completed_indexes = {0, 1};
          std::erase_if(observed.pods,
                        [](const ObservedPod& pod) { return pod.role == Role::kWorker; });
        });
      }
      const Plan plan = seen.Plan();
      EXPECT_EQ(plan.status.state, "Succeeded");
      EXPECT_EQ(plan.status.attempt, 0);
    }
  }
}

TEST(RestartRuleTest, OneFailedWorkerRestartsTheWholeGang) {
  Seen seen(Gang());
  seen.Running().Worker(0, kReady).Worker(1, Exited(137, "OOMKilled"));
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());  // charged first, acted on when that is written
  EXPECT_EQ(plan.status.restarts.application, 1);
  EXPECT_EQ(plan.status.attempt, 1);
  EXPECT_EQ(plan.status.state, "Restarting");
  EXPECT_FALSE(IsTrue(plan.status, kRunning));
  EXPECT_EQ(plan.status.failure->role, "worker");
  EXPECT_EQ(plan.status.failure->index, 1);
  EXPECT_EQ(plan.status.failure->exit_code, 137);
  ASSERT_EQ(plan.events.size(), 1U);
  EXPECT_EQ(plan.events[0].message,
            "worker-1 exited with code 137 (OOMKilled); all replicas start again "
            "(application failures: 1 of 6, disruptions: 0)");
  EXPECT_THAT(seen.Write().Plan().actions,
              UnorderedElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid"},
                                   DeletePod{"j-worker-1", "j-worker-1-uid"}));
  EXPECT_THAT(seen.NoPods().Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 1}, CreatePod{Role::kWorker, 1, 1}));
}

TEST(RestartRuleTest, ManyFailuresOfOneAttemptAreOneCharge) {
  Seen seen(Gang());
  seen.Running().Worker(0, Exited(210)).Worker(1, Exited(137)).Write();
  EXPECT_EQ(seen.Build().job.status.restarts.application, 1);
  EXPECT_EQ(seen.Write().Build().job.status.restarts.application, 1);
}

TEST(RestartRuleTest, TheFirstToFailIsTheOneThatIsNamed) {
  const Time now = Time(seconds(1'700'000'000));
  Seen seen(Gang());
  seen.Running().Worker(0, Exited(210, "", now)).Worker(1, Exited(139, "", now - seconds(1)));
  EXPECT_EQ(seen.Plan().status.failure->index, 1);
}

TEST(RestartRuleTest, ADrainedMemberTakesTheBlameForPeersThatFellOver) {
  Seen seen(Gang());
  seen.Running().Worker(0, Exited(210)).Worker(1, kBeingDeleted).Write();
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{0, 1, 1}));
}

testing::JobBuilder GangOf3(RestartPolicy policy = RestartPolicy::kExitCode) {
  return Job("j").Workers(3).RestartScope(RestartScope::kGang).RestartPolicy(Role::kWorker, policy);
}

TEST(RestartRuleTest, WhatTookAPeerAwayIsBlamedForThoseWhoEndBecauseOfIt) {
  struct Case {
    const char* name;
    PodState cause;
    api::RestartCounts charged;
    const char* reason;
  };
  const PodState silent = [](ObservedPod& pod) {
    kReady(pod);
    pod.node_silent_since = Time(seconds(1'700'000'000));
  };
  const Case cases[] = {{"too much memory", Exited(137, "OOMKilled"), {1, 0, 1}, "OOMKilled"},
                        {"a signal", Exited(139, "Error"), {1, 0, 1}, "Error"},
                        {"an eviction", Evicted(), {0, 1, 1}, "Evicted"},
                        {"too much storage", EvictedForItsOwnLimit(1), {1, 0, 1}, "Evicted"},
                        {"a drain", kBeingDeleted, {0, 1, 1}, "PodLost"},
                        {"a silent node", silent, {0, 1, 1}, "NodeLost"}};
  for (const Case& c : cases) {
    for (const auto policy : {RestartPolicy::kExitCode, RestartPolicy::kOnFailure}) {
      Seen seen(GangOf3(policy));
      seen.Running().Worker(0, ExitedBefore(1)).Worker(1, c.cause).Worker(2, ExitedBefore(1));
      const Plan plan = seen.Plan();
      EXPECT_EQ(plan.status.state, "Restarting") << c.name;
      EXPECT_EQ(plan.status.restarts, c.charged) << c.name;
      EXPECT_EQ(plan.status.failure->index, 1) << c.name;
      EXPECT_EQ(plan.status.failure->reason, c.reason) << c.name;
    }
  }
}

TEST(RestartRuleTest, WhoeverEndsByThemselvesIsNotJudgedBeforeTheOthersHaveSettled) {
  Seen seen(GangOf3());
  seen.Running().Worker(0, ExitedBefore(1, seconds(4))).Worker(1, kReady).Worker(2, kReady);
  EXPECT_EQ(seen.Plan().status.state, "Running");
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(6)));
  EXPECT_EQ(seen.Later(seconds(6)).Plan().status.state, "Failed");
  EXPECT_EQ(seen.Plan().status.failure->exit_code, 1);
  // Nobody is left who could turn out to have been lost first.
  Seen all(GangOf3());
  all.Running().Worker(0, Exited(1)).Worker(1, Exited(1)).Worker(2, Exited(1));
  EXPECT_EQ(all.Plan().status.state, "Failed");
  // The job fails at once, too, if replicas do not need each other, or if there is one.
  Seen alone(Job("j").Workers(1).RestartPolicy(Role::kWorker, RestartPolicy::kExitCode));
  EXPECT_EQ(alone.Worker(0, Exited(1)).Plan().status.state, "Failed");
  Seen apart(Job("j")
                 .Workers(2)
                 .Strategy(api::StrategyType::kIndependent)
                 .RestartPolicy(Role::kWorker, RestartPolicy::kExitCode));
  EXPECT_EQ(apart.Worker(0, Exited(1)).Worker(1, kReady).Plan().status.state, "Failed");
  // The bundled trainer's codes need no second look.
  Seen trainer(Job("j").Workers(2).Training());
  EXPECT_EQ(trainer.Worker(0, Exited(10)).Worker(1, kReady).Plan().status.state, "Failed");
}

TEST(RestartRuleTest, APeersEndAfterTheCauseWasChargedCostsNothing) {
  Seen seen(Job("j").Workers(2).ParameterServers(1).RestartPolicy(Role::kWorker,
                                                                  RestartPolicy::kExitCode));
  ASSERT_EQ(seen.Build().job.spec.restart_scope, RestartScope::kPod);
  seen.Running().Pod(Role::kParameterServer, 0, Exited(137)).Worker(0, kReady).Worker(1, kReady);
  EXPECT_TRUE(seen.Plan().names_cause);
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.restarts.application, 1);
  seen.NoPods().Worker(0, Exited(1)).Worker(1, kReady);
  seen.Pod(Role::kParameterServer, 0, [](ObservedPod& pod) {
    kReady(pod);
    pod.uid = "its successor";
  });
  Seen much_later(seen);
  seen.With([](Observed& observed) { observed.last_cause = observed.now - seconds(10); }).Write();
  EXPECT_EQ(seen.Build().job.status.restarts.application, 1);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid"}));
  much_later.With([](Observed& observed) {
    observed.last_cause = observed.now - seconds(11);
    observed.pods[0].failed_since = observed.now - seconds(11);
  });
  EXPECT_EQ(much_later.Plan().status.state, "Failed");
}

// It does not know when the failure in the status was charged.
TEST(RestartRuleTest, AnOperatorThatHasJustTakenOverFailsNoJobForAPeersEnd) {
  using Cause = std::optional<api::Failure>;
  const auto failure = [](const char* role, int code, const char* reason) -> Cause {
    return api::Failure{
        .role = role, .index = 1, .node = "", .exit_code = code, .reason = reason, .message = ""};
  };
  struct Case {
    const char* name;
    Cause last;
    int seen_for;  // seconds
    bool fails;
  };
  const Case cases[] = {
      {"a peer ran out of memory", failure("worker", 137, "OOMKilled"), 10, false},
      {"a peer was killed", failure("worker", 143, "Error"), 10, false},
      {"a peer was lost", failure("ps", 0, "NodeLost"), 10, false},
      {"a peer was evicted after its end", failure("worker", 1, "Evicted"), 10, false},
      {"long ago", failure("worker", 137, "OOMKilled"), 11, true},
      {"a peer that may have been a consequence", failure("worker", 1, "Error"), 10, true},
      {"by a runtime that gives no reason", failure("worker", 1, ""), 10, true},
      {"an Evaluator's, which may hide the cause", failure("evaluator", 1, "Error"), 10, false},
      {"an Evaluator's, long ago", failure("evaluator", 1, "Error"), 11, true},
      {"no failure", std::nullopt, 10, true},
  };
  for (const Case& c : cases) {
    Seen seen(Job("j")
                  .Workers(3)
                  .RestartScope(RestartScope::kPod)
                  .RestartPolicy(Role::kWorker, RestartPolicy::kExitCode));
    seen.Running().Worker(0, kReady).Worker(1, kReady).Worker(2, ExitedBefore(1));
    seen.With([&c](Observed& observed) {
      observed.job.status.failure = c.last;
      observed.had_cause = MayHaveCause(observed.job);
      observed.first_seen = observed.now - seconds(c.seen_for);
    });
    const Plan plan = seen.Plan();
    EXPECT_EQ(plan.status.state, c.fails ? "Failed" : "Running") << c.name;
    EXPECT_EQ(plan.status.restarts.application, 0) << c.name;
  }
}

TEST(RestartRuleTest, SupervisorsThatGaveUpWaitingAreNotChargedForTheOneThatIsNotThere) {
  const auto job = Job("j").Workers(4).Training();
  const auto elastic = testing::JobBuilder(job).With(
      [](api::TrainingJob& made) { made.spec.elastic = api::ElasticSpec{1, 4}; });
  for (const int code : {api::kExitPeerLost, api::kExitRendezvousDeadline}) {
    Seen resized(elastic);  // its trainer waits for all of its workers, too
    resized.Running().Worker(0, Exited(code)).Worker(1, Exited(code)).Worker(2, Exited(code));
    resized.Worker(3, testing::kPending).Write();
    EXPECT_EQ(resized.Build().job.status.restarts, (api::RestartCounts{0, 0, 1}));
    Seen lacking(job);
    lacking.Running().Worker(0, Exited(code)).Worker(1, Exited(code)).Worker(2, Exited(code));
    lacking.Worker(3, testing::kPending).Write();
    EXPECT_EQ(lacking.Build().job.status.restarts, (api::RestartCounts{0, 0, 1}));
    EXPECT_THAT(lacking.Build().job.status.counted_pods, ::testing::SizeIs(3));
    EXPECT_THAT(lacking.Plan().actions, ::testing::SizeIs(3));
    // With all there it is one incident.
    Seen all(job);
    all.Running().Worker(0, Exited(code)).Worker(1, Exited(code)).Worker(2, Exited(code));
    all.Worker(3, kReady).Write();
    EXPECT_EQ(all.Build().job.status.restarts, (api::RestartCounts{1, 0, 1}));
    // And the one whose process was killed is the cause.
    Seen killed(job);
    killed.Running().Worker(0, Exited(code)).Worker(1, kReady).Worker(2, Exited(137));
    killed.Worker(3, kReady).Write();
    EXPECT_EQ(killed.Build().job.status.restarts, (api::RestartCounts{1, 0, 1}));
    EXPECT_EQ(killed.Build().job.status.failure->index, 2);
  }
}

// Its peers have lost it, so what they end with is no cause.
TEST(RestartRuleTest, APodThatHasLostAGpuIsReplacedAndChargedUntilTheLimitIsReached) {
  const auto job = Job("j").Workers(3).Training();
  Seen seen(job);
  seen.Running().Worker(0, Exited(api::kExitPeerLost)).Worker(1, Exited(api::kExitGpuGone));
  seen.Worker(2, kReady).Write();
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{1, 0, 1}));
  EXPECT_EQ(seen.Build().job.status.failure->index, 1);
  EXPECT_EQ(seen.Build().job.status.failure->exit_code, api::kExitGpuGone);
  EXPECT_FALSE(seen.Plan().actions.empty());
  // As where no node has the GPUs that the job's containers are to see.
  Seen spent(job);
  spent.Running().Worker(0, kReady).Worker(1, Exited(api::kExitGpuGone)).Worker(2, kReady);
  spent.With([](Observed& observed) {
    observed.job.status.restarts = {.application = 6, .disruption = 0, .since_progress = 6};
  });
  EXPECT_EQ(spent.Plan().status.state, "Failed");
}

// Its process runs and its pod is ready, but it has not left the generation that the others gave
// up.
TEST(RestartRuleTest, AReplicaThatItsGroupHasGivenUpForHangingIsTheCauseAndStartsAgainWithAll) {
  const auto job = Job("j").Workers(4).Training();
  const auto group = [](Seen& seen) {
    seen.Running();
    for (const int i : {0, 1, 3}) seen.Worker(i, Exited(api::kExitRendezvousDeadline));
    seen.Worker(2, kReady).With([](Observed& observed) {
      observed.group.hung = {{"worker-2", 2, "waits for its next batch"}};
    });
  };
  Seen seen(job);
  group(seen);
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.restarts, (api::RestartCounts{1, 0, 1}));
  EXPECT_EQ(plan.status.attempt, 1);
  ASSERT_TRUE(plan.status.failure);
  EXPECT_EQ(plan.status.failure->index, 2);
  EXPECT_EQ(plan.status.failure->reason, "ReplicaHung");
  EXPECT_EQ(plan.status.failure->message,
            "worker-2 hangs: its group has waited for rank 2 in vain, which waits for its next "
            "batch");
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "ReplicaHung");
  seen.Write();
  EXPECT_THAT(seen.Plan().actions, ::testing::SizeIs(4)) << "the hung one, too, is deleted";
  // What has become of it meanwhile explains itself.
  Seen lost(job);
  group(lost);
  lost.With([](Observed& observed) { observed.pods[2].node_silent_since = observed.now; });
  EXPECT_EQ(lost.Plan().status.attempt, 0);
  // Nobody has given it up.
  Seen crashed(job);
  crashed.Running().Worker(0, Exited(137));
  for (const int i : {1, 2, 3}) crashed.Worker(i, kReady);
  crashed.With([](Observed& observed) {
    observed.group.hung = {{"worker-2", 2, "computes its gradients"}};
  });
  EXPECT_EQ(crashed.Plan().status.failure->index, 0);
  // Something else explains it.
  Seen both(job);
  group(both);
  both.With([](Observed& observed) {
    Exited(137)(observed.pods[3]);
    observed.group.stragglers = observed.group.hung;
  });
  EXPECT_EQ(both.Plan().status.failure->index, 3);
  EXPECT_EQ(both.Plan().status.attempt, 0);
  // A rule may be about it.
  Seen ignored(job);
  group(ignored);
  ignored.With([](Observed& observed) {
    observed.job.spec.run_policy.pod_failure_policy.emplace().rules = {
        {.action = api::FailureAction::kIgnore, .on_reasons = {"ReplicaHung"}}};
  });
  EXPECT_EQ(ignored.Plan().status.restarts, (api::RestartCounts{0, 1, 1}));
}

// They end within a second, but are seen one after another, and the leading one saves first.
TEST(RestartRuleTest, SupervisorsThatGiveUpTogetherAreOneIncidentHoweverLateEachIsSeen) {
  const PodState gave_up = Exited(api::kExitRendezvousDeadline);
  Seen seen(Job("j").Workers(4).Training());
  seen.Running().Worker(0, kReady).Worker(1, gave_up).Worker(2, gave_up).Worker(3, kReady).Write();
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{1, 0, 1}));
  // The pod of worker `of_worker`, one of four new ones, gives up so much later.
  int pods = 1;
  const auto counts_after = [&](std::chrono::seconds later, int of_worker) {
    seen.NoPods();
    for (int i = 0; i < 4; ++i) seen.Worker(i, i == of_worker ? gave_up : kReady);
    seen.With([&pods](Observed& observed) {
      ++pods;
      observed.job.status.counted_pods.clear();
      for (ObservedPod& pod : observed.pods) pod.uid += fmt::format("-{}", pods);
    });
    return seen.Later(later).Write().Build().job.status.restarts;
  };
  EXPECT_EQ(counts_after(seconds(5), 3), (api::RestartCounts{1, 0, 1}));
  EXPECT_EQ(counts_after(seconds(60), 0), (api::RestartCounts{1, 0, 2})) << "it waits a little";
  // A second end of the same replica is another one.
  EXPECT_EQ(counts_after(seconds(60), 1).application, 2);
}

TEST(RestartRuleTest, AFailureThatWasRecoveredFromIsNotWhyAJobEndsAtItsDeadline) {
  Seen seen(Job("j").Workers(2).RestartScope(RestartScope::kPod).With([](api::TrainingJob& job) {
    job.spec.run_policy.active_deadline_seconds = 3600;
  }));
  seen.Running().Worker(0, kReady).Worker(1, Exited(137)).Write();
  ASSERT_TRUE(seen.Build().job.status.failure);
  seen.NoPods().Worker(0, kReady).Worker(1, kReady).Later(std::chrono::hours(2));
  const Plan plan = seen.Plan();
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "DeadlineExceeded");
  EXPECT_THAT(FindCondition(plan.status, kFailed)->message,
              ::testing::EndsWith("; the last failure was that of worker-1 (exit code 137)"));
  EXPECT_FALSE(plan.status.failure);
}

TEST(RestartRuleTest, ReportedProgressMakesNoRestartsWithoutPause) {
  Seen seen(Gang());
  seen.With([](Observed& observed) {
    observed.last_restart = observed.now - seconds(3);
    observed.job.status.restarts.since_progress = 0;
  });
  seen.Running().Worker(0, kReady).Worker(1, Exited(137)).Write();
  EXPECT_EQ(seen.Build().job.status.next_retry_time, seen.Build().now + seconds(7));
}

TEST(RestartRuleTest, AGangGoesOnWithoutAWorkerThatIsDeletedBeforeItStarts) {
  const auto elastic = Gang().Workers(3).ElasticTorch(2, 4);
  const PodState deleted_while_pending = [](ObservedPod& pod) { pod.being_deleted = true; };
  // Runs with two workers, and the third becomes this.
  const auto with_third = [&elastic](const PodState& third) {
    Seen seen(elastic);
    seen.Service().Worker(0, kReady).Worker(1, kReady).Worker(2, testing::kPending).Write();
    return seen.NoPods().Worker(0, kReady).Worker(1, kReady).Worker(2, third);
  };
  Seen seen = with_third(deleted_while_pending).Write();
  const api::TrainingJobStatus& status = seen.Build().job.status;
  EXPECT_EQ(status.state, "Running");
  EXPECT_EQ(status.attempt, 0);
  EXPECT_EQ(status.restarts, (api::RestartCounts{.disruption = 1, .since_progress = 1}));
  EXPECT_THAT(status.counted_pods, ElementsAre("j-worker-2-uid"));
  // A kubelet without room for it, too, but not one that has known it before, as after a restart.
  for (const bool had_started : {false, true}) {
    Seen rejected = with_third([](ObservedPod& pod) {
      pod.phase = PodPhase::kFailed;
      pod.reason = "OutOfnvidia.com/gpu";
    });
    if (had_started) {
      rejected.With([](Observed& observed) { observed.started_workers = {0, 1, 2}; });
    }
    EXPECT_EQ(rejected.Write().Build().job.status.attempt, had_started ? 1 : 0);
  }
  // A worker that an operator that has just started knows by the status is no new one either.
  Seen known = with_third([](ObservedPod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.reason = "UnexpectedAdmissionError";
  });
  known.With([](Observed& observed) {
    observed.job.status.replica_statuses[Role::kWorker] = {.desired = 3, .active = 3, .ready = 3};
  });
  EXPECT_EQ(known.Plan().status.attempt, 1);
  // A worker that is evicted while its image is pulled has not started either.
  Seen evicted = with_third([](ObservedPod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.reason = "Evicted";
    pod.termination = Termination{.exit_code = 137};
  });
  EXPECT_EQ(evicted.Write().Build().job.status.attempt, 0);
  // One whose second container keeps the pod Pending has started.
  Seen joined = with_third([](ObservedPod& pod) {
    pod.being_deleted = true;
    pod.running_since = Time{};
  });
  EXPECT_EQ(joined.Write().Build().job.status.attempt, 1);
  // One that the gang needs is another matter.
  Seen needed(elastic);
  needed.Running().Worker(0, kReady).Worker(1, deleted_while_pending).Worker(2, kReady).Write();
  EXPECT_EQ(needed.Build().job.status.attempt, 1);
}

TEST(RestartRuleTest, AGangMemberThatVanishedRestartsTheGangForFree) {
  Seen seen(Gang());
  seen.Running().Worker(0, kReady);
  EXPECT_EQ(seen.Plan().status.restarts.disruption, 1);
  EXPECT_EQ(seen.Plan().status.attempt, 1);
  // Before the gang has run, a missing pod is simply made.
  const Plan early = Seen(Gang()).Service().Worker(0, kReady).Plan();
  EXPECT_THAT(early.actions, ElementsAre(CreatePod{Role::kWorker, 1, 0}));
}

// The counts of the status do not include a worker that is to go, so it must not make up for
// another.
TEST(RestartRuleTest, AVanishedMemberIsMissedThoughASurplusOneIsStillEnding) {
  Seen seen(Job("j").Workers(4).RestartScope(RestartScope::kGang).With([](api::TrainingJob& job) {
    job.spec.elastic = api::ElasticSpec{1, 4};
  }));
  seen.Running().Worker(0, kReady).Worker(1, kReady).Worker(3, kBeingDeleted);
  seen.With([](Observed& observed) {
    observed.job.status.replica_statuses[Role::kWorker] = {.desired = 4, .ready = 3};
    observed.job.status.counted_pods = {"j-worker-3-uid"};
  });
  EXPECT_EQ(seen.Plan().status.restarts.disruption, 1);
  EXPECT_EQ(seen.Plan().status.attempt, 1);
}

TEST(RestartRuleTest, InPlaceReplacesThatPodAlone) {
  Seen seen(InPlace());
  seen.Running().Worker(0, kReady).Worker(1, Exited(137));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.restarts.application, 1);
  EXPECT_EQ(seen.Build().job.status.attempt, 0);
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
  EXPECT_EQ(seen.Write().Build().job.status.restarts.application, 1);  // charged once
  seen.NoPods().Worker(0, kReady);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 1, 0}));
}

// A member ends with 0 only once the leading process has saved the result.
TEST(RestartRuleTest, ALeaderThatIsLostAfterAPeerHasFinishedNeedsNoneAgain) {
  const auto job = Job("j").Workers(2).Training();
  const PodState lost[] = {Exited(137), kBeingDeleted, [](ObservedPod& pod) {
                             kReady(pod);
                             pod.node_silent_since = Time();
                           }};
  for (const PodState& leader : lost) {
    Seen seen(job);
    const Plan plan = seen.Running().Worker(0, leader).Worker(1, Exited(0)).Plan();
    EXPECT_EQ(plan.status.state, "Succeeded");
    EXPECT_EQ(plan.status.restarts, api::RestartCounts());
    EXPECT_EQ(FindCondition(plan.status, kSucceeded)->message,
              "worker-0 has told the other replicas that it has finished");
  }
  Seen absent(job);
  EXPECT_EQ(absent.Running().Worker(1, Exited(0)).Plan().status.state, "Succeeded");
  Seen noted(job);
  noted.Running().Worker(0, kBeingDeleted).With([](Observed& observed) {
    observed.job.status.completed_indexes = {1};
    observed.pods[0].cluster_shape = "worker=2";
  });
  EXPECT_EQ(noted.Plan().status.state, "Succeeded");
  // A peer in its place is replaced alone, and the leader that has finished ends the job.
  Seen peer(Job("j").Workers(3).Training());
  peer.Running().Worker(0, kReady).Worker(1, Exited(137)).Worker(2, Exited(0)).Write();
  EXPECT_EQ(peer.Build().job.status.attempt, 0);
  Seen both(job);
  EXPECT_EQ(both.Running().Worker(0, Exited(0)).Worker(1, Exited(137)).Plan().status.state,
            "Succeeded");
  // Other images know what to do with the scope that they were given.
  Seen other(InPlace());
  other.Running().Worker(0, Exited(137)).Worker(1, Exited(0)).Write();
  EXPECT_EQ(other.Build().job.status.attempt, 0);
  EXPECT_EQ(other.Build().job.status.state, "Running");
}

// A drain takes pods that have finished, too.
TEST(RestartRuleTest, APeerThatHasFinishedCountsWhenItsPodIsGone) {
  Seen seen(Job("j").Workers(2).Training());
  seen.Running().Worker(0, kBeingDeleted).With([](Observed& observed) {
    observed.completed_since[1] = observed.now - seconds(1);
  });
  EXPECT_EQ(seen.Plan().status.state, "Succeeded");
}

const PodState kJustFinished = [](ObservedPod& pod) {
  Exited(0)(pod);
  pod.succeeded_since = Time(seconds(1'700'000'000));  // now, of Seen
};

TEST(RestartRuleTest, ALeaderThatWaitsForAPeerThatHasFinishedIsNotWaitedForForLong) {
  for (const RestartScope scope : {RestartScope::kInPlace, RestartScope::kGang}) {
    Seen seen(Job("j").Workers(2).Training().RestartScope(scope).BackoffLimit(0));
    seen.Running().Worker(0, kReady).Worker(1, kJustFinished).Write();
    seen.With([](Observed& observed) { observed.group.awaited = {"worker-1"}; });
    EXPECT_EQ(seen.Later(seconds(14)).Write().Build().job.status.state, "Running");
    EXPECT_EQ(seen.Plan().requeue_after, seconds(1));
    EXPECT_EQ(seen.Later(seconds(1)).Plan().status.state, "Succeeded");
    EXPECT_EQ(seen.Plan().status.restarts, api::RestartCounts());
  }
}

// An operator that cannot ask, or a kubelet that is slow to tell.
TEST(RestartRuleTest, ALeaderOfWhomNothingIsKnownGetsAMinute) {
  Seen seen(Job("j").Workers(2).Training());
  seen.Running().Worker(0, kReady).Worker(1, kJustFinished).Write();
  EXPECT_EQ(seen.Later(seconds(59)).Write().Build().job.status.state, "Running");
  EXPECT_EQ(seen.Later(seconds(1)).Plan().status.state, "Succeeded");
}

TEST(RestartRuleTest, ALeaderOnASilentNodeMayHaveFinished) {
  Seen seen(Job("j").Workers(2).Training().BackoffLimit(0));
  seen.Running().Worker(0, kReady).Worker(1, kJustFinished);
  seen.Later(std::chrono::minutes(1)).With([](Observed& observed) {
    observed.group.awaited = {"worker-1"};
    observed.pods[0].node_silent_since = observed.now - seconds(30);
  });
  EXPECT_EQ(seen.Write().Build().job.status.state, "Running");
  EXPECT_EQ(seen.Later(std::chrono::minutes(2)).Plan().status.state, "Succeeded");
}

TEST(RestartRuleTest, ADrainedPodInPlaceIsFreeAndMadeWhenTheOldOneIsGone) {
  Seen seen(InPlace());
  seen.Running().Worker(0, kReady).Worker(1, kBeingDeleted).Write();
  EXPECT_EQ(seen.Build().job.status.restarts.disruption, 1);
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Write().Build().job.status.restarts.disruption, 1);
}

// An Evaluator is no peer, so its failure explains none of theirs; see evaluator_rule_test.cc.
TEST(RestartRuleTest, AnEvaluatorThatFailsBesideThemDoesNotShortenTheSettling) {
  Seen seen(Job("j")
                .Workers(3)
                .Evaluator()
                .RestartScope(RestartScope::kGang)
                .RestartPolicy(Role::kWorker, RestartPolicy::kExitCode));
  seen.Running().Worker(0, ExitedBefore(1, seconds(4))).Worker(1, kReady).Worker(2, kReady);
  seen.Pod(Role::kEvaluator, 0, Exited(137)).Write();
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_EQ(seen.Plan().status.state, "Running");
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(6)));
  // What was lost before shows meanwhile.
  seen.With([](Observed& observed) { kBeingDeleted(observed.pods.at(1)); }).Write();
  EXPECT_EQ(seen.Build().job.status.restarts.application, 0);
  EXPECT_EQ(seen.Build().job.status.restarts.disruption, 1);
}

TEST(RestartRuleTest, APermanentFailureFailsTheJob) {
  Seen seen(Gang());
  seen.With([](Observed& observed) {
    observed.job.spec.replica_specs[Role::kWorker].restart_policy = RestartPolicy::kExitCode;
  });
  const Plan plan = seen.Running().Worker(0, kReady).Worker(1, ExitedBefore(11)).Plan();
  EXPECT_EQ(plan.status.state, "Failed");
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "ReplicaFailed");
  EXPECT_EQ(plan.status.failure->exit_code, 11);
  EXPECT_EQ(plan.status.failure->message, "last words");
  EXPECT_TRUE(plan.status.completion_time);
}

TEST(RestartRuleTest, TheBudgetCountsApplicationFailuresOnly) {
  struct Case {
    PodState state;
    int spent;
    const char* expected;
  };
  const Case cases[] = {
      {Exited(137), 2, "Failed"}, {Exited(137), 1, "Restarting"}, {Evicted(), 2, "Restarting"}};
  for (const Case& c : cases) {
    Seen seen(Gang().BackoffLimit(2));
    seen.Running().Worker(0, kReady).Worker(1, c.state);
    seen.With([&c](Observed& observed) { observed.job.status.restarts.application = c.spent; });
    EXPECT_EQ(seen.Plan().status.state, c.expected);
  }
}

TEST(RestartRuleTest, APodThatIsAlwaysEvictedForItsOwnLimitFailsTheJobWithTheReason) {
  Seen seen(Job("j").Workers(1).BackoffLimit(1));
  for (const char* state : {"Restarting", "Failed"}) {
    seen.With([](Observed& observed) { observed.job.status.next_retry_time.reset(); });
    seen.NoPods().Worker(0, kReady).Write();
    seen.NoPods().Worker(0, EvictedForItsOwnLimit()).Write();
    EXPECT_EQ(seen.Build().job.status.state, state);
  }
  const api::TrainingJobStatus& status = seen.Build().job.status;
  EXPECT_EQ(status.failure->reason, "Evicted");
  EXPECT_EQ(status.failure->message,
            "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Gi\".");
  EXPECT_EQ(status.failure->exit_code, 137);
  EXPECT_EQ(FindCondition(status, kFailed)->message,
            "worker-0 was lost: Evicted; backoffLimit (1) is spent");
}

TEST(RestartRuleTest, ANodesEvictionIsReportedInTheKubeletsWordsNotTheContainers) {
  Seen seen(Gang());
  seen.Running().Worker(0, kReady).Worker(1, [](ObservedPod& pod) {
    Exited(137, "Error")(pod);
    Evicted()(pod);
    pod.message = "The node was low on resource: memory.";
  });
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.restarts.disruption, 1);
  EXPECT_EQ(plan.status.failure->reason, "Evicted");
  EXPECT_EQ(plan.status.failure->message, "The node was low on resource: memory.");
}

TEST(RestartRuleTest, AKubeletsRestartsCountInScopePod) {
  Seen seen(Job("j").Workers(2).RestartScope(RestartScope::kPod).BackoffLimit(3));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.pods[1].restart_count = 3; });
  EXPECT_EQ(seen.Plan().status.state, "Running");
  EXPECT_EQ(seen.Plan().status.restart_count, 3);
  seen.With([](Observed& observed) { observed.pods[1].restart_count = 4; });
  EXPECT_EQ(FindCondition(seen.Plan().status, kFailed)->reason, "BackoffLimitExceeded");
}

TEST(RestartRuleTest, AMessageCountsTheKubeletsRestartsOfPodsThatRunOn) {
  Seen seen(Job("j").Workers(3).RestartScope(RestartScope::kPod).BackoffLimit(6));
  seen.Running().Worker(0, kReady).Worker(1, kReady).Worker(2, Exited(137));
  seen.With([](Observed& observed) {
    observed.pods[1].restart_count = 3;
    observed.pods[2].restart_count = 1;
  });
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.events.at(0).message, HasSubstr("application failures: 5 of 6"));
  EXPECT_EQ(plan.status.restarts.application, 2) << "those of the pod that is lost";
  seen.With([](Observed& observed) { observed.pods[1].restart_count = 5; });
  const Plan spent = seen.Plan();
  EXPECT_EQ(spent.status.state, "Failed") << "7 of 6";
  EXPECT_THAT(spent.events.at(0).message, HasSubstr("backoffLimit (6) is spent"));
}

PodState FailedInInit(int code, const std::string& reason = "Error") {
  return [=](ObservedPod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.node = "n";
    pod.blockers = {{"init container fetch", code, reason, "no such bucket"}};
  };
}

TEST(RestartRuleTest, AFailedInitContainerIsNamedWithItsCodeAndItsWords) {
  Seen seen(Gang());
  const Plan plan = seen.Worker(0, kReady).Worker(1, FailedInInit(3)).Plan();
  EXPECT_EQ(plan.status.restarts.application, 1);
  EXPECT_EQ(plan.status.failure->exit_code, 3);
  EXPECT_EQ(plan.status.failure->reason, "InitContainerFailed");
  EXPECT_EQ(plan.status.failure->message,
            "init container fetch of worker-1 exited with code 3: no such bucket");
  EXPECT_THAT(plan.events.at(0).message,
              HasSubstr("init container fetch of worker-1 on node n exited with code 3;"));
}

TEST(RestartRuleTest, WhatEndsAPodFromOutsideIsReportedInsteadOfItsInitContainersEnd) {
  Seen evicted(Gang());
  evicted.Worker(0, kReady).Worker(1, FailedInInit(143));
  evicted.With([](Observed& observed) { Evicted()(observed.pods[1]); });
  EXPECT_EQ(evicted.Plan().status.failure->reason, "Evicted");
  EXPECT_EQ(evicted.Plan().status.failure->exit_code, 0);
  Seen deleted(Gang());
  deleted.Worker(0, kReady).Worker(1, FailedInInit(143));
  deleted.With([](Observed& observed) { observed.pods[1].being_deleted = true; });
  EXPECT_EQ(deleted.Plan().status.failure->reason, "PodLost");
  EXPECT_THAT(deleted.Plan().events.at(0).message, HasSubstr("is being deleted"));
}

TEST(RestartRuleTest, AnInitContainerThatIsRestartedTooOftenIsReported) {
  Seen seen(Job("j").Workers(2).RestartScope(RestartScope::kPod).BackoffLimit(3));
  seen.Worker(0, kReady).Worker(1, FailedInInit(1, "OOMKilled"));
  seen.With([](Observed& observed) {
    observed.pods[1].phase = PodPhase::kPending;  // the kubelet tries again
    observed.pods[1].restart_count = 4;
  });
  const Plan plan = seen.Plan();
  EXPECT_EQ(FindCondition(plan.status, kFailed)->reason, "BackoffLimitExceeded");
  EXPECT_EQ(plan.status.failure->message,
            "init container fetch of worker-1 exited with code 1 (OOMKilled): no such bucket");
}

TEST(RestartRuleTest, TheFirstRetryIsImmediateLaterOnesBackOff) {
  const Settings settings;
  const int expected[] = {0, 10, 20, 40, 80, 160, 300, 300};
  for (int n = 1; n <= 8; ++n) EXPECT_EQ(RestartDelay(settings, n), seconds(expected[n - 1]));
  Seen seen(Gang());
  seen.Running().Worker(0, kReady).Worker(1, Exited(137)).Write();
  EXPECT_FALSE(seen.Build().job.status.next_retry_time);
  seen.Running().Worker(0, kReady).Worker(1, Exited(137)).Write();
  EXPECT_EQ(seen.Build().job.status.next_retry_time, seen.Build().now + seconds(10));
}

// The successor of a failed pod, which fails as well.
PodState FailedAgain(int n) {
  return [n](ObservedPod& pod) {
    Exited(137)(pod);
    pod.uid += std::to_string(n);
  };
}

TEST(RestartRuleTest, ADrainedNodeIsOneRestartThoughItsPodsAreSeenOneByOne) {
  for (const RestartScope scope : {RestartScope::kInPlace, RestartScope::kPod}) {
    Seen seen(Job("j").Workers(8).RestartScope(scope));
    seen.Running();
    for (int i = 0; i < 8; ++i) seen.Worker(i, kReady);
    for (std::size_t i = 1; i < 8; ++i) {
      seen.With([i](Observed& observed) { observed.pods[i].being_deleted = true; });
      seen.Later(seconds(1)).Write();
      EXPECT_FALSE(seen.Build().job.status.next_retry_time) << i;
    }
    EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{0, 7, 1}));
  }
}

TEST(RestartRuleTest, UsersAreToldThatReplicasWaitForTheirNextTry) {
  Seen seen(Job("j").Workers(2).RestartScope(RestartScope::kInPlace));
  seen.Running().With([](Observed& observed) { observed.job.status.restarts.since_progress = 3; });
  seen.Worker(0, kReady).Worker(1, Exited(137));
  EXPECT_THAT(seen.Plan().events[0].message, HasSubstr("; it starts again in 40s (application"));
  const auto running = [&seen] { return *FindCondition(seen.Build().job.status, kRunning); };
  seen.Write().NoPods().Worker(0, kReady).Write();
  EXPECT_EQ(running().reason, "BackOff");
  EXPECT_THAT(running().message, StartsWith("the next restart is due at "));
  // Its image may be pulled for minutes.
  seen.Later(seconds(40)).Worker(1, testing::kPending).Write();
  EXPECT_EQ(running().status, api::ConditionStatus::kTrue);
  EXPECT_EQ(running().reason, "PodsNotReady");
  EXPECT_EQ(running().message, "not all replicas are ready yet");
  seen.NoPods().Worker(0, kReady).Worker(1, kReady).Write();
  EXPECT_EQ(running().reason, "AllReplicasReady");
}

TEST(RestartRuleTest, WhatIsLostWhileReplicasWaitIsNoReasonToWaitLonger) {
  Seen seen(Job("j").Workers(3).RestartScope(RestartScope::kInPlace));
  seen.Running().With([](Observed& observed) { observed.job.status.restarts.since_progress = 3; });
  seen.Worker(0, kReady).Worker(1, kBeingDeleted).Worker(2, kReady).Write();
  const auto retry = seen.Build().job.status.next_retry_time;
  EXPECT_EQ(retry, seen.Build().now + seconds(40));
  seen.Later(seconds(2)).With([](Observed& observed) { observed.pods[2].being_deleted = true; });
  EXPECT_EQ(seen.Write().Build().job.status.restarts, (api::RestartCounts{0, 2, 4}));
  EXPECT_EQ(seen.Build().job.status.next_retry_time, retry);
  // Long after the node it is another one, whose replica may wait less than it would alone.
  seen.Later(seconds(9)).With([](Observed& observed) { observed.pods[0].being_deleted = true; });
  EXPECT_EQ(seen.Write().Build().job.status.restarts, (api::RestartCounts{0, 3, 5}));
  EXPECT_EQ(seen.Build().job.status.next_retry_time, retry);
  // The attempt of a gang has one time for all.
  Seen gang(Gang());
  gang.Running().With([](Observed& observed) {
    observed.job.status.restarts.since_progress = 3;
    observed.job.status.next_retry_time = observed.now + seconds(1);
  });
  gang.Worker(0, kReady).Worker(1, kBeingDeleted).Write();
  EXPECT_EQ(gang.Build().job.status.next_retry_time, gang.Build().now + seconds(40));
}

TEST(RestartRuleTest, ACrashLoopBacksOffHoweverQuickItIs) {
  Seen one(InPlace());
  one.Running();
  for (int n = 0; n < 4; ++n) {
    one.NoPods().Worker(0, kReady).Worker(1, FailedAgain(n)).Later(seconds(2)).Write();
    EXPECT_EQ(one.Build().job.status.restarts.since_progress, n + 1);
  }
  EXPECT_EQ(one.Build().job.status.next_retry_time, one.Build().now + seconds(40));
  // Two that take turns do not get more than one try each either.
  Seen turns(InPlace());
  turns.Running();
  const int since[] = {1, 1, 2, 2, 3, 3};
  for (int n = 0; n < 6; ++n) {
    turns.NoPods()
        .Worker(n % 2, FailedAgain(n))
        .Worker(1 - n % 2, kReady)
        .Later(seconds(1))
        .Write();
    EXPECT_EQ(turns.Build().job.status.restarts.since_progress, since[n]) << n;
  }
  // All of a gang start again, so whoever fails next has failed again.
  Seen gang(Gang());
  gang.Running().Worker(0, kReady).Worker(1, Exited(137)).Write();
  gang.Running().Later(seconds(2)).Worker(0, Exited(137)).Worker(1, kReady).Write();
  EXPECT_EQ(gang.Build().job.status.restarts.since_progress, 2);
  EXPECT_EQ(gang.Build().job.status.next_retry_time, gang.Build().now + seconds(10));
}

TEST(RestartRuleTest, ALongHealthyRunResetsTheBackOff) {
  Seen seen(Gang());
  seen.Running().With([](Observed& observed) { observed.job.status.restarts.since_progress = 4; });
  seen.Later(std::chrono::minutes(11)).Worker(0, kReady).Worker(1, Exited(137)).Write();
  EXPECT_EQ(seen.Build().job.status.restarts.since_progress, 1);
  EXPECT_FALSE(seen.Build().job.status.next_retry_time);
}

TEST(RestartRuleTest, SoDoesThatOfARoleForWhichOthersWait) {
  Seen seen(Job("j")
                .Workers(2)
                .Chief()
                .RestartScope(RestartScope::kGang)
                .DependsOn(Role::kChief, Role::kWorker, api::DependencyStatus::kComplete));
  // All of them have ended, as those of a gang do.
  seen.Service().Worker(0, Exited(1)).Worker(1, Exited(137)).With([](Observed& observed) {
    observed.job.status.running_roles = {Role::kWorker};
    observed.job.status.restarts.since_progress = 4;
  });
  seen.Later(std::chrono::minutes(11)).Write();
  EXPECT_EQ(seen.Build().job.status.restarts.since_progress, 1);
  EXPECT_FALSE(seen.Build().job.status.next_retry_time);
}

// The operator does not poll, or cannot reach pods.
TEST(RestartRuleTest, SoDoesThatOfOneReplicaThatTrainsAloneWhileOthersFindNoRoom) {
  Seen seen(Job("j").Workers(3).Strategy(api::StrategyType::kIndependent));
  seen.Service().Worker(0, kReady).Worker(1, kReady).Worker(2, [](ObservedPod&) {}).Write();
  const auto lose = [&seen] {
    seen.With([](Observed& observed) { observed.pods[1].uid += "'"; });  // a successor
    seen.With([](Observed& observed) { observed.pods[1].being_deleted = true; }).Write();
    seen.With([](Observed& observed) { observed.pods[1].being_deleted = false; });
  };
  for (int times = 1; times <= 3; ++times) {
    lose();
    EXPECT_EQ(seen.Build().job.status.restarts.disruption, times);
    EXPECT_EQ(seen.Build().job.status.restarts.since_progress, 1);
    seen.Later(std::chrono::hours(1));
  }
}

TEST(RestartRuleTest, AGangOfReplicasThatTrainAloneMissesNone) {
  Seen seen(Job("j")
                .Workers(3)
                .Strategy(api::StrategyType::kIndependent)
                .RestartScope(RestartScope::kGang));
  seen.Service().Worker(0, kReady).Write();  // a quota leaves no room for the others
  ASSERT_EQ(seen.Build().job.status.state, "Running");
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.attempt, 0);
  EXPECT_EQ(plan.status.restarts, api::RestartCounts{});
}

TEST(RestartRuleTest, SoDoesThatOfATrainerThatReportsNoProgress) {
  const auto drained_after = [](Duration run, const auto& change) {
    Seen seen(Job("j").Workers(2).Training());
    seen.Running().With(
        [](Observed& observed) { observed.job.status.restarts.since_progress = 8; });
    seen.Later(run).With(change).Worker(0, kReady).Worker(1, kBeingDeleted).Write();
    return seen.Build().job.status;
  };
  const auto nothing = [](Observed&) {};
  EXPECT_FALSE(drained_after(std::chrono::hours(1), nothing).next_retry_time);
  EXPECT_TRUE(drained_after(std::chrono::minutes(9), nothing).next_retry_time);
  const auto reported = [](Duration ago, int step) {
    return [=](Observed& observed) {
      observed.job.status.progress.emplace().step = 7;
      observed.progress.emplace().step = step;
      observed.progress->update_time = observed.now - ago;
    };
  };
  EXPECT_TRUE(drained_after(std::chrono::hours(1), reported(seconds(9), 7)).next_retry_time)
      << "it reports, but makes no step";
  EXPECT_FALSE(drained_after(std::chrono::hours(1), reported(seconds(9), 8)).next_retry_time);
  EXPECT_FALSE(drained_after(std::chrono::hours(1), reported(seconds(3660), 7)).next_retry_time)
      << "the last words of an earlier pod";
  const auto only_loss = [](Observed& observed) {
    observed.progress.emplace().loss = 0.5;
    observed.progress->update_time = observed.now - seconds(9);
  };
  EXPECT_FALSE(drained_after(std::chrono::hours(1), only_loss).next_retry_time)
      << "it counts no steps, so that none can show that it goes on";
}

TEST(RestartRuleTest, ARestartThatLeavesTheJobRunningEndsItsHealthyRun) {
  Seen seen(Job("j").Workers(2).ParameterServers(1).BackoffLimit(9).RestartPolicy(
      Role::kWorker, RestartPolicy::kExitCode));
  ASSERT_EQ(seen.Build().job.spec.restart_scope, RestartScope::kPod);
  seen.Pod(Role::kParameterServer, 0, kReady).Worker(0, kReady).Worker(1, kReady).Write();
  seen.With([](Observed& observed) { observed.job.status.restarts.since_progress = 4; });
  seen.Later(std::chrono::minutes(11)).With([](Observed& observed) {
    observed.last_restart = observed.now - seconds(20);
    Exited(137)(observed.pods[0]);
  });
  seen.Write();
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{1, 0, 5}));
  EXPECT_EQ(seen.Build().job.status.next_retry_time, seen.Build().now + seconds(80));
  const auto fails = [](Observed& observed) { Exited(137)(observed.pods[1]); };
  Seen soon(seen);
  soon.Later(std::chrono::minutes(11)).With(fails).Write();
  EXPECT_EQ(soon.Build().job.status.restarts, (api::RestartCounts{2, 0, 6}))
      << "the replica that failed first waited for 80 s of these 11 minutes";
  seen.Later(std::chrono::minutes(12)).With(fails).Write();
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{2, 0, 1}));
}

TEST(RestartRuleTest, AFailedPodThatIsNoMemberCostsNothing) {
  Seen seen(Gang());
  seen.Running().Worker(0, kReady).Worker(1, kReady).Worker(2, Exited(1));
  EXPECT_FALSE(PlanRestart(seen.Build()));
}

}  // namespace
}  // namespace lockstep::controller
