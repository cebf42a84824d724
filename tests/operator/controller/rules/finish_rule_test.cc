#include "operator/controller/rules/finish_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::CleanPodPolicy;
using api::Role;
using api::SuccessPolicy;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kPending;
using testing::kReady;
using testing::PodState;
using testing::Seen;

PodState EndedByItsNode(int code) {
  return [code](ObservedPod& pod) {
    Exited(code)(pod);
    pod.phase = PodPhase::kFailed;
    pod.reason = "DeadlineExceeded";
  };
}
const std::function<void(Observed&)> kIsCounted = [](Observed& observed) {
  observed.job.status.counted_pods = {observed.pods.front().uid};
};

TEST(FinishRuleTest, SuccessFollowsThePolicy) {
  struct Case {
    const char* name;
    Seen seen;
    bool succeeded;
  };
  const auto two = Job("j").Workers(2);
  const auto chief = Job("j").Chief().Workers(1);
  const auto all = Job("j").Workers(2).SuccessPolicy(SuccessPolicy::kAllWorkers);
  const auto chief_and_all = Job("j").Chief().Workers(1).SuccessPolicy(SuccessPolicy::kAllWorkers);
  const Case cases[] = {
      {"worker 0", Seen(two).Worker(0, Exited(0)).Worker(1, kReady), true},
      {"not worker 1", Seen(two).Worker(0, kReady).Worker(1, Exited(0)), false},
      {"chief", Seen(chief).Pod(Role::kChief, 0, Exited(0)).Worker(0, kReady), true},
      {"not worker 0 beside a chief", Seen(chief).Pod(Role::kChief, 0, kReady).Worker(0, Exited(0)),
       false},
      {"all workers", Seen(all).Worker(0, Exited(0)).Worker(1, Exited(0)), true},
      {"not one of all", Seen(all).Worker(0, Exited(0)).Worker(1, kReady), false},
      {"all includes the chief",
       Seen(chief_and_all).Pod(Role::kChief, 0, kReady).Worker(0, Exited(0)), false},
      {"a completed index needs no pod",
       Seen(all).Worker(1, Exited(0)).With([](Observed& observed) {
         observed.job.status.completed_indexes = {0};
       }),
       true},
      {"success beats a failure seen with it", Seen(two).Worker(0, Exited(0)).Worker(1, Exited(1)),
       true},
      {"not worker 0 whose node told it to end", Seen(two).Worker(0, EndedByItsNode(0)), false},
      {"not worker 0 that was to go before", Seen(two).Worker(0, Exited(0)).With(kIsCounted),
       false},
      {"the bundled trainer ends with 0 only when it has finished",
       Seen(Job("j").Workers(2).Training()).Worker(0, Exited(0)).With(kIsCounted), true},
  };
  for (Case c : cases) {
    EXPECT_EQ(c.seen.Service().Plan().status.state == "Succeeded", c.succeeded) << c.name;
  }
}

// The edit has suspended the job and changed more, or so it may be.
TEST(FinishRuleTest, AnEditEndsNoTraining) {
  using Change = std::function<void(Observed&)>;
  struct Case {
    const char* name;
    Seen seen;  // before the edit
    Change edit;
    const char* state;
  };
  const Change nothing_else = [](Observed& /*observed*/) {};
  const Change two_workers = [](Observed& observed) {
    observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
  };
  const Change leader_decides = [](Observed& observed) {
    observed.job.spec.success_policy = SuccessPolicy::kChiefOrWorker0;
  };
  const Change no_chief = [](Observed& observed) {
    observed.job.spec.replica_specs.erase(Role::kChief);
  };
  const Change goes_on = [](Observed& observed) { observed.job.spec.suspend = false; };
  const auto all = Job("j").Workers(4).SuccessPolicy(SuccessPolicy::kAllWorkers);
  const auto elastic =
      Job("j").Workers(4).RestartScope(api::RestartScope::kGang).With([](api::TrainingJob& job) {
        job.spec.elastic = api::ElasticSpec{1, 4};
      });
  const auto with = [](const testing::JobBuilder& job, std::vector<PodState> workers) {
    Seen seen = Seen(job).Service();
    if (job.Build().spec.replica_specs.contains(Role::kChief)) seen.Pod(Role::kChief, 0, kReady);
    for (std::size_t i = 0; i < workers.size(); ++i) seen.Worker(static_cast<int>(i), kReady);
    seen.Write();
    const std::size_t first = seen.Build().pods.size() - workers.size();
    return seen.With([=](Observed& observed) {
      for (std::size_t i = 0; i < workers.size(); ++i) workers[i](observed.pods[first + i]);
    });
  };
  const PodState done = Exited(0);
  const Case cases[] = {
      {"fewer workers", with(all, {done, done, kReady, kReady}), two_workers, "Suspended"},
      {"fewer workers when all have finished", with(all, {done, done, done, done}), two_workers,
       "Succeeded"},
      {"another policy", with(all, {done, kReady, kReady, kReady}), leader_decides, "Succeeded"},
      {"fewer workers and another policy", with(all, {kReady, done, done, done}),
       [=](Observed& observed) {
         two_workers(observed);
         leader_decides(observed);
       },
       "Suspended"},
      {"only the suspension, when the leader has finished",
       with(Job("j").Workers(2), {done, kReady}), nothing_else, "Succeeded"},
      {"another leader", with(Job("j").Chief().Workers(2), {done, kReady}), no_chief, "Suspended"},
      {"fewer workers, and the end was known before",
       with(all, {done, done, kReady, kReady}).With([](Observed& observed) {
         observed.training_end_seen = observed.now;
       }),
       two_workers, "Succeeded"},
      {"a training group", with(Job("j").Workers(2).Training(), {done, kReady}), nothing_else,
       "Succeeded"},
      {"a job that goes on", with(Job("j").Workers(2), {done, kReady}), goes_on, "Succeeded"},
      {"an autoscaler's edit", with(elastic, {done, kReady, kReady, kReady}),
       [=](Observed& observed) {
         goes_on(observed);
         two_workers(observed);
       },
       "Succeeded"},
  };
  for (Case c : cases) {
    c.seen.With([&c](Observed& observed) {
      ++observed.job.metadata.generation;
      observed.job.spec.suspend = true;
      c.edit(observed);
    });
    EXPECT_EQ(c.seen.Plan().status.state, c.state) << c.name;
  }
}

// The first look writes the new numbers to the status.
TEST(FinishRuleTest, AnEditEndsNoSuspendedTrainingLaterEither) {
  for (const auto strategy :
       {api::StrategyType::kIndependent, api::StrategyType::kMultiWorkerMirrored}) {
    Seen seen(Job("j").Workers(4).Strategy(strategy).SuccessPolicy(SuccessPolicy::kAllWorkers));
    seen.Running().Worker(0, Exited(0)).Worker(1, Exited(0)).Worker(2, kReady).Worker(3, kReady);
    seen.Write();
    seen.With([](Observed& observed) {
      ++observed.job.metadata.generation;
      observed.job.spec.suspend = true;
      observed.job.spec.replica_specs[Role::kWorker].replicas = 2;
    });
    EXPECT_EQ(seen.Write().Build().job.status.state, "Suspended");
    EXPECT_EQ(seen.Write().Build().job.status.state, "Suspended");
    EXPECT_EQ(seen.NoPods().Write().Build().job.status.state, "Suspended");
    // Whoever sees that, and sets the number right, goes on.
    seen.With([](Observed& observed) {
      ++observed.job.metadata.generation;
      observed.job.spec.suspend = false;
      observed.job.spec.replica_specs[Role::kWorker].replicas = 4;
    });
    EXPECT_EQ(seen.Write().Write().Build().job.status.state, "Pending");
  }
}

// The servers end when the leading process has told them that the result is saved.
TEST(FinishRuleTest, TheEndOfAParameterServerIsThatOfALostLeader) {
  struct Case {
    const char* name;
    std::function<void(Seen&)> leader;
    bool succeeded;
  };
  const Case cases[] = {
      {"is gone", [](Seen&) {}, true},
      {"has failed", [](Seen& seen) { seen.Worker(0, Exited(137)); }, true},
      {"is being deleted", [](Seen& seen) { seen.Worker(0, kBeingDeleted); }, true},
      {"is about to end", [](Seen& seen) { seen.Worker(0, kReady); }, false},
      {"is on a node that is silent",
       [](Seen& seen) {
         seen.Worker(0, [](ObservedPod& pod) {
           kReady(pod);
           pod.node_silent_since = Time(seconds(1'700'000'000)) - minutes(3);
         });
       },
       true},
      {"has a successor that waits for servers which have ended",
       [](Seen& seen) {
         const PodState ended = [](ObservedPod& pod) {
           Exited(0)(pod);
           pod.succeeded_since = Time(seconds(1'700'000'000)) - minutes(10);
         };
         seen.NoPods().Worker(0, kReady).Worker(1, ended);
         for (const int i : {0, 1}) seen.Pod(Role::kParameterServer, i, ended);
       },
       true},
  };
  for (const Case& c : cases) {
    Seen seen(Job("j").Workers(2).ParameterServers(2).Training());
    seen.Running().Worker(1, kReady);
    seen.Pod(Role::kParameterServer, 0, Exited(0)).Pod(Role::kParameterServer, 1, kReady);
    c.leader(seen);
    EXPECT_EQ(seen.Plan().status.state == "Succeeded", c.succeeded) << c.name;
  }
  Seen stopped(Job("j").Workers(1).ParameterServers(1).Training());
  stopped.Running().Pod(Role::kParameterServer, 0, Exited(200));
  EXPECT_NE(stopped.Plan().status.state, "Succeeded");
  Seen other_image(Job("j").Workers(1).ParameterServers(1));
  other_image.Running().Pod(Role::kParameterServer, 0, Exited(0));
  EXPECT_NE(other_image.Plan().status.state, "Succeeded");
}

// The pod that would say when training has ended is lost. A node's clock may be anything.
TEST(FinishRuleTest, WithALostLeaderAnEvaluatorsTimeCountsFromTheEndOfTheServers) {
  const Time now = Time(seconds(1'700'000'000));
  const PodState server = [now](ObservedPod& pod) {
    Exited(0, "", now)(pod);
    pod.succeeded_since = now;
  };
  const auto lost = [&](const std::function<void(Seen&)>& change) {
    Seen seen(Job("j").Workers(1).ParameterServers(1).Evaluator().Training());
    seen.Running().NoPods().Pod(Role::kParameterServer, 0, server);
    seen.Pod(Role::kEvaluator, 0, kReady);
    change(seen);
    return seen;
  };
  const std::pair<const char*, std::function<void(Seen&)>> cases[] = {
      {"nothing is known", [](Seen&) {}},
      {"the last report is old",
       [&](Seen& seen) {
         seen.With([&](Observed& observed) {
           observed.job.status.progress.emplace().update_time = now - minutes(20);
         });
       }},
      {"the leader failed an hour ahead",
       [&](Seen& seen) { seen.Worker(0, Exited(137, "", now + std::chrono::hours(1))); }}};
  for (const auto& [name, change] : cases) {
    Seen seen = lost(change);
    EXPECT_NE(seen.Later(minutes(4)).Plan().status.state, "Succeeded") << name;
    EXPECT_EQ(seen.Later(minutes(1)).Plan().status.state, "Succeeded") << name;
  }
}

// A worker that is replaced when the run ends finds no group, and never succeeds.
TEST(FinishRuleTest, TheLeadingReplicasSuccessIsThatOfItsTrainingGroup) {
  const auto all = Job("j").Workers(2).Training().SuccessPolicy(SuccessPolicy::kAllWorkers);
  Seen seen(all);
  seen.Service().Worker(0, kReady).Worker(1, Exited(0));
  EXPECT_NE(seen.Plan().status.state, "Succeeded");
  for (const bool with_servers : {false, true}) {
    auto job = all;
    if (with_servers) job.ParameterServers(1).Strategy(api::StrategyType::kParameterServer);
    Seen ended(job);
    ended.Service().Worker(0, Exited(0)).Worker(1, kPending);
    if (with_servers) ended.Pod(Role::kParameterServer, 0, Exited(0));
    EXPECT_EQ(ended.Plan().status.state, "Succeeded") << with_servers;
  }
}

PodState Trained(std::vector<api::VariantResult> results) {
  return [results = std::move(results)](ObservedPod& pod) {
    Exited(0)(pod);
    pod.termination->results = results;
  };
}

TEST(FinishRuleTest, AnIndependentJobKeepsTheResultsOfItsVariants) {
  api::TrainingSpec training = testing::MnistTraining();
  training.variants =
      api::Json::array({{{"name", "a"}}, {{"name", "b"}}, api::Json::object(), {{"name", "d"}}});
  Seen seen(Job("j")
                .Workers(2)
                .Training(training)
                .Strategy(api::StrategyType::kIndependent)
                .ProcessesPerPod(2));
  seen.Service().Worker(0, kReady).Worker(
      1, Trained({{.index = 3, .name = "claimed", .step = 5, .loss = 0.5},
                  {.index = 2, .diverged = true},
                  {.index = 0, .step = 9}}));  // not that pod's
  EXPECT_NE(seen.Plan().status.state, "Succeeded");
  const std::vector<api::VariantResult> first = {
      {.index = 2, .name = "variant-2", .diverged = true},
      {.index = 3, .name = "d", .step = 5, .loss = 0.5}};
  EXPECT_EQ(seen.Plan().status.variants, first);

  seen.Write().NoPods().Worker(0, Trained({{.index = 0, .step = 4}, {.index = 1, .step = 4}}));
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.state, "Succeeded");
  ASSERT_EQ(plan.status.variants.size(), 4U);
  EXPECT_EQ(plan.status.variants[0].name, "a");
  EXPECT_EQ(plan.status.variants[3].name, "d") << "its pod is gone, its result is not";
  EXPECT_EQ(plan.events.back().message, "all workers have finished; 1 of 4 variants diverged");
}

// An invalid spec does not keep its variants.
TEST(FinishRuleTest, AVariantKeepsItsNameWhileTheSpecIsInvalid) {
  api::TrainingSpec training = testing::MnistTraining();
  training.variants = api::Json::array({{{"name", "a"}}, {{"name", "b"}}});
  Seen seen(Job("j").Workers(2).Training(training).Strategy(api::StrategyType::kIndependent));
  seen.Service().Worker(0, kReady).Worker(1, Trained({{.index = 1, .step = 5}})).Write();
  ASSERT_EQ(seen.Build().job.status.variants.front().name, "b");
  seen.With([](Observed& observed) {
    observed.invalid = "found a fault";
    observed.job.spec.training.emplace();
  });
  EXPECT_EQ(BaseStatus(seen.Build()).variants.front().name, "b");
}

TEST(FinishRuleTest, ResultsOfAJobThatTrainsTogetherAreNotTaken) {
  Seen seen(Job("j").Workers(1).Training());
  seen.Service().Worker(0, Trained({{.index = 0, .step = 4}}));
  EXPECT_TRUE(seen.Plan().status.variants.empty());
}

TEST(FinishRuleTest, SuccessIsWrittenBeforeAnythingIsCleanedUp) {
  Seen seen(Job("j").Workers(2));
  seen.Running().Worker(0, Exited(0)).Worker(1, kReady);
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(IsTrue(plan.status, kSucceeded));
  EXPECT_FALSE(IsTrue(plan.status, kRunning));
  EXPECT_EQ(plan.status.completion_time, seen.Build().now);
  EXPECT_EQ(plan.status.replica_statuses.at(Role::kWorker).succeeded, 1) << "the other is stopped";
  EXPECT_EQ(plan.status.replica_statuses.at(Role::kWorker).active, 0);
  ASSERT_EQ(plan.events.size(), 1U);
  EXPECT_EQ(plan.events[0].reason, "Succeeded");
  Seen group(Job("j").Workers(2).Training());
  group.Running().Worker(0, Exited(0)).Worker(1, kReady);
  EXPECT_EQ(group.Plan().status.replica_statuses.at(Role::kWorker).succeeded, 2);
}

TEST(FinishRuleTest, PodsAreCleanedUpAsAsked) {
  struct Case {
    CleanPodPolicy policy;
    std::vector<Action> expected;
  };
  const DeletePod done{"j-worker-0", "j-worker-0-uid"}, running{"j-worker-1", "j-worker-1-uid"};
  const Case cases[] = {{CleanPodPolicy::kRunning, {running}},
                        {CleanPodPolicy::kAll, {done, running}},
                        {CleanPodPolicy::kNone, {}}};
  for (const Case& c : cases) {
    Seen seen(Job("j").Workers(2).CleanPodPolicy(c.policy));
    seen.Service().Worker(0, Exited(0)).Worker(1, kReady).Write();
    EXPECT_EQ(seen.Plan().actions, c.expected);
  }
}

TEST(FinishRuleTest, APodWhoseMainContainerHasEndedMayEndByItself) {
  // As a kubelet reports it first: the container has ended, the pod has not.
  const auto ended = [](ObservedPod& pod) {
    Exited(0)(pod);
    pod.phase = PodPhase::kRunning;
  };
  Seen seen(Job("j").Workers(1));
  seen.Service().Worker(0, ended).Write();
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, seconds(10));
  // A sidecar holds it up.
  EXPECT_THAT(seen.Later(seconds(10)).Plan().actions,
              ElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid"}));
}

TEST(FinishRuleTest, TheBundledTrainersReplicasMayEndByThemselves) {
  Seen seen(Job("j").Workers(2).Training());
  seen.Service().Worker(0, Exited(0)).Worker(1, kReady).Write();
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Later(seconds(10)).Plan().actions,
              ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
}

// It has come after the run's end, and finds neither a leader nor parameter servers.
TEST(FinishRuleTest, AMemberThatComesTooLateIsStoppedWhateverThePolicy) {
  for (const PodState& late : {kReady, kPending}) {
    Seen seen(Job("j").Workers(2).CleanPodPolicy(CleanPodPolicy::kNone).Training());
    seen.Service().Worker(0, Exited(0)).Worker(1, late).Write();
    EXPECT_THAT(seen.Plan().actions, IsEmpty()) << "it may be about to end";
    EXPECT_EQ(seen.Plan().requeue_after, seconds(10));
    EXPECT_THAT(seen.Later(seconds(10)).Plan().actions,
                ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
  }
}

TEST(FinishRuleTest, WithPolicyNoneOthersStay) {
  const auto none = [] { return Job("j").Workers(2).CleanPodPolicy(CleanPodPolicy::kNone); };
  const auto with_sidecar = [](ObservedPod& pod) {
    Exited(0)(pod);
    pod.phase = PodPhase::kRunning;
  };
  Seen ended(none().Training());
  ended.Service().Worker(0, Exited(0)).Worker(1, with_sidecar).Write();
  EXPECT_THAT(ended.Later(minutes(1)).Plan().actions, IsEmpty());
  Seen alone(none().Training().Strategy(api::StrategyType::kIndependent));
  alone.Service().Worker(0, Exited(0)).Worker(1, kReady).Write();
  EXPECT_THAT(alone.Later(minutes(1)).Plan().actions, IsEmpty());
  Seen failed(none().Training());
  failed.Service().Worker(0, Exited(10)).Worker(1, kReady).Write();
  failed.Write();
  ASSERT_EQ(failed.Build().job.status.state, "Failed");
  EXPECT_THAT(failed.Later(minutes(1)).Plan().actions, IsEmpty());
}

TEST(FinishRuleTest, ATerminalConditionIsAbsorbing) {
  Seen seen(Job("j").Workers(2));
  seen.Service().Worker(0, Exited(0)).Worker(1, kReady).Write();
  const auto status = seen.Build().job.status;
  seen.NoPods().Worker(0, Exited(1)).Worker(1, kPending).Later(minutes(5));
  seen.With([](Observed& observed) { observed.job.spec.suspend = true; });
  EXPECT_EQ(seen.Plan().status, status);
  EXPECT_THAT(seen.NoPods().Plan().actions, IsEmpty());
}

TEST(FinishRuleTest, TheJobGoesWhenItsTimeToLiveHasPassed) {
  Seen seen(Job("j").Workers(1).TtlSecondsAfterFinished(60));
  seen.Service().Worker(0, Exited(0)).Write().Later(seconds(20));
  EXPECT_EQ(seen.Plan().requeue_after, seconds(40));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Later(seconds(40)).Plan().actions, ElementsAre(DeleteJob{}));
}

TEST(FinishRuleTest, PodsAreCleanedUpBesideADeleteOfTheJobThatFails) {
  Seen seen(Job("j").Workers(2).TtlSecondsAfterFinished(0));
  seen.Service().Worker(0, Exited(0)).Worker(1, kReady).Write();
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeleteJob{})) << "which deletes its pods";
  seen.With([](Observed& observed) { observed.is_delete_failing = true; });
  EXPECT_THAT(seen.Plan().actions,
              ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}, DeleteJob{}));
}

TEST(FinishRuleTest, ATimeToLiveThatNoTimeHoldsDeletesNothing) {
  Seen seen(Job("j").Workers(1).TtlSecondsAfterFinished(9'999'999'999));
  seen.Service().Worker(0, Exited(0)).Write();
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_GT(seen.Plan().requeue_after, Duration(std::chrono::hours(24 * 365 * 60)));
  Seen running(Job("j").Workers(1).ActiveDeadlineSeconds(9'007'199'254'740'991));
  EXPECT_NE(running.Service().Worker(0, kReady).Plan().status.state, "Failed");
}

TEST(FinishRuleTest, AnEvaluatorGetsABoundedTimeToFinish) {
  const Time now = Time(seconds(1'700'000'000));
  Seen seen(Job("j").Workers(1).Evaluator());
  seen.Service().Worker(0, Exited(0, "", now)).Pod(Role::kEvaluator, 0, kReady).Later(seconds(60));
  EXPECT_NE(seen.Plan().status.state, "Succeeded");
  EXPECT_EQ(seen.Plan().requeue_after, minutes(4));
  EXPECT_EQ(seen.Later(minutes(4)).Plan().status.state, "Succeeded");
  Seen done(Job("j").Workers(1).Evaluator());
  done.Service().Worker(0, Exited(0, "", now)).Pod(Role::kEvaluator, 0, Exited(0));
  EXPECT_EQ(done.Plan().status.state, "Succeeded");
}

TEST(FinishRuleTest, ANodeWhoseClockIsAheadGivesAnEvaluatorNoMoreTime) {
  const Time now = Time(seconds(1'700'000'000));
  Seen seen(Job("j").Workers(1).Evaluator());
  seen.Service().Worker(0, Exited(0, "", now + std::chrono::hours(1)));
  seen.With([now](Observed& observed) { observed.pods[0].succeeded_since = now; });
  seen.Pod(Role::kEvaluator, 0, kReady).Later(minutes(4));
  EXPECT_NE(seen.Plan().status.state, "Succeeded");
  EXPECT_EQ(seen.Later(minutes(1)).Plan().status.state, "Succeeded");
}

// It would wait for ever, and under Kueue hold the job's quota.
TEST(FinishRuleTest, AnEvaluatorThatHasNotFinishedIsStoppedWhateverThePolicy) {
  for (const auto policy : {CleanPodPolicy::kNone, CleanPodPolicy::kRunning}) {
    Seen seen(Job("j").Workers(2).Evaluator().CleanPodPolicy(policy).Training());
    seen.Running().Worker(0, Exited(0)).Worker(1, Exited(0)).Pod(Role::kEvaluator, 0, kReady);
    seen.Later(minutes(5)).Write();
    ASSERT_EQ(seen.Build().job.status.state, "Succeeded");
    EXPECT_THAT(seen.Plan().actions, IsEmpty()) << "it may be about to end";
    EXPECT_THAT(seen.Later(seconds(10)).Plan().actions,
                ElementsAre(DeletePod{"j-evaluator-0", "j-evaluator-0-uid"}));
  }
}

// Training has ended a minute ago, and the Evaluator's pod is in this state.
Seen Trained(const PodState& evaluator) {
  const Time ended = Time(seconds(1'700'000'000));
  Seen seen(Job("j").Workers(1).Evaluator().Training());
  seen.Running().Worker(0, Exited(0, "", ended)).Later(seconds(60));
  seen.Pod(Role::kEvaluator, 0, evaluator);
  return seen;
}

// It is deleted before it has finished.
TEST(FinishRuleTest, AnEvaluatorThatHasNotFinishedHasNotSucceeded) {
  Seen seen = Trained(kReady);
  const Plan plan = seen.Later(minutes(4)).Plan();
  ASSERT_EQ(plan.status.state, "Succeeded");
  EXPECT_EQ(plan.status.replica_statuses.at(Role::kEvaluator).succeeded, 0);
  EXPECT_EQ(plan.status.replica_statuses.at(Role::kEvaluator).active, 0);
  EXPECT_EQ(Trained(Exited(0)).Plan().status.replica_statuses.at(Role::kEvaluator).succeeded, 1);
}

// Whatever cleanPodPolicy says, it is deleted, and its pods are not counted again.
TEST(FinishRuleTest, AnEvaluatorThatIsDeletedIsNotCounted) {
  Seen seen(Job("j").Workers(2).Evaluator().CleanPodPolicy(api::CleanPodPolicy::kNone).Training());
  seen.Running().Worker(0, Exited(0, "", Time(seconds(1'700'000'000)))).Worker(1, kReady);
  seen.Pod(Role::kEvaluator, 0, kReady);
  const Plan plan = seen.Later(minutes(10)).Plan();
  ASSERT_EQ(plan.status.state, "Succeeded");
  const auto& counts = plan.status.replica_statuses;
  EXPECT_EQ(counts.at(Role::kEvaluator).active, 0);
  EXPECT_EQ(counts.at(Role::kEvaluator).ready, 0);
  EXPECT_EQ(counts.at(Role::kWorker).active, 0) << "a member that outlives the run is deleted too";
  EXPECT_EQ(counts.at(Role::kWorker).succeeded, 2);
}

TEST(FinishRuleTest, PodsThatStayAreCounted) {
  Seen seen(Job("j").Workers(2).CleanPodPolicy(api::CleanPodPolicy::kNone));
  seen.Running().Worker(0, Exited(0)).Worker(1, kReady);
  const Plan plan = seen.Plan();
  ASSERT_EQ(plan.status.state, "Succeeded");
  EXPECT_EQ(plan.status.replica_statuses.at(Role::kWorker).active, 1);
}

TEST(FinishRuleTest, AnEvaluatorThatFindsADivergedRunAfterTrainingFailsTheJob) {
  const Plan plan = Trained(Exited(20)).Plan();
  ASSERT_EQ(plan.status.state, "Failed");
  EXPECT_EQ(plan.status.failure->exit_code, 20);
}

TEST(FinishRuleTest, AnEvaluatorThatSawNoCheckpointIsAskedForItsVolume) {
  const auto message = [](const PodState& evaluator, const std::function<void(Observed&)>& change) {
    Seen seen = Trained(evaluator);
    seen.With(change).Write().Later(minutes(4));
    return FindCondition(seen.Plan().status, kSucceeded)->message;
  };
  const auto none = [](Observed&) {};
  const auto misses = [](Observed& observed) {
    observed.group.evaluator_misses_checkpoints = true;
  };
  const auto missed = [](Observed& observed) {  // and nobody answers any more
    SetCondition(observed, observed.job.status, kRunning, true, "CheckpointsNotSeen", "");
  };
  const std::string asked =
      "worker-0 has finished; the Evaluator has not finished and does not see the checkpoints: is "
      "checkpoint.directory on a volume that it shares with the leading pod?";
  EXPECT_EQ(message(kReady, misses), asked);
  EXPECT_EQ(message(kReady, missed), asked);
  EXPECT_EQ(message(kReady, none), "worker-0 has finished; the Evaluator has not finished");
  EXPECT_EQ(message(kReady,
                    [](Observed& observed) {  // its first result is NaN, say
                      observed.job.status.progress = {.step = 9, .last_checkpoint_step = 8};
                    }),
            "worker-0 has finished; the Evaluator has not finished");
  EXPECT_EQ(message(Exited(137, "OOMKilled"), missed),
            "worker-0 has finished; the Evaluator has not finished: evaluator-0 exited with code "
            "137 (OOMKilled)");
}

TEST(FinishRuleTest, AnEvaluatorGetsNoPodWithoutQuota) {
  const auto without = [](const std::function<void(Observed&)>& change) {
    Seen seen = Trained(kReady);
    seen.NoPods().Worker(0, Exited(0, "", Time(seconds(1'700'000'000))));
    seen.With([&](Observed& observed) {
      observed.settings.kueue = true;
      observed.job.metadata.labels["kueue.x-k8s.io/queue-name"] = "research";
      change(observed);
    });
    return seen.Plan();
  };
  EXPECT_EQ(without([](Observed&) {}).status.state, "Succeeded") << "its Workload is gone";
  EXPECT_EQ(without([](Observed& observed) { observed.workload.emplace(); }).status.state,
            "Succeeded")
      << "its Workload waits";
  const auto admit = [](Observed& observed) { observed.workload.emplace().admitted = true; };
  EXPECT_TRUE(MakesPods(without(admit)));
  const auto evict = [](Observed& observed) {
    ObservedWorkload& workload = observed.workload.emplace();
    workload.admitted = workload.evicted = true;
  };
  EXPECT_EQ(without(evict).status.state, "Succeeded");
  const auto leave = [](Observed& observed) { observed.job.metadata.labels.clear(); };
  EXPECT_TRUE(MakesPods(without(leave))) << "it needs none";
}

TEST(FinishRuleTest, AnEvaluatorGetsNoPodByAnInvalidSpec) {
  Seen seen = Trained(kReady);
  seen.NoPods().Worker(0, Exited(0, "", Time(seconds(1'700'000'000))));
  ASSERT_TRUE(MakesPods(seen.Plan()));
  seen.With([](Observed& observed) { observed.invalid = "the spec is too large"; });
  EXPECT_EQ(seen.Plan().status.state, "Succeeded");
  EXPECT_FALSE(MakesPods(seen.Plan()));
}

TEST(FinishRuleTest, AnEvaluatorThatIsLostAfterTrainingIsReplaced) {
  for (const PodState& lost : {Exited(137), kBeingDeleted}) {
    Seen seen = Trained(lost);
    seen.Write();
    EXPECT_NE(seen.Build().job.status.state, "Succeeded");
    EXPECT_EQ(seen.Build().job.status.counted_pods.size(), 1u);
    const std::size_t deletes = seen.Build().pods.back().being_deleted ? 0 : 1;
    EXPECT_EQ(seen.Plan().actions.size(), deletes);
    seen.With([](Observed& observed) { observed.pods.pop_back(); });
    const Plan plan = seen.Plan();
    ASSERT_EQ(plan.actions.size(), 1u);
    const auto* pod = std::get_if<CreatePod>(&plan.actions.back());
    ASSERT_NE(pod, nullptr);
    EXPECT_EQ(pod->role, Role::kEvaluator) << "the only one that is missing";
    EXPECT_EQ(plan.requeue_after, seconds(10)) << "progress is polled";
    EXPECT_EQ(seen.Later(minutes(4)).Plan().status.state, "Succeeded") << "the time is bounded";
  }
}

TEST(FinishRuleTest, WhatHasBecomeOfTheEvaluatorsPodIsNamed) {
  const auto message = [](Seen& seen) {
    return FindCondition(seen.Later(minutes(4)).Plan().status, kSucceeded)->message;
  };
  const std::string what = "worker-0 has finished; the Evaluator has not finished: ";
  Seen deleted = Trained(kBeingDeleted);
  deleted.Write();
  EXPECT_EQ(message(deleted), what + "the pod of evaluator-0 is being deleted");
  Seen gone = Trained(kBeingDeleted);
  gone.Write().With([](Observed& observed) { observed.pods.pop_back(); });
  EXPECT_EQ(message(gone), what + "evaluator-0 has no pod; its last one was lost: PodLost");
  Seen failed = Trained(Exited(137, "OOMKilled"));
  failed.Write().With([](Observed& observed) { observed.pods.pop_back(); });
  EXPECT_EQ(message(failed),
            what + "evaluator-0 has no pod; its last one exited with code 137 (OOMKilled)");
  Seen never = Trained(kBeingDeleted);
  never.With([](Observed& observed) { observed.pods.pop_back(); });
  EXPECT_EQ(message(never), what + "evaluator-0 has no pod");
}

TEST(FinishRuleTest, AnEvaluatorThatCannotGoOnDoesNotSpoilTheSuccess) {
  Seen failed = Trained(Exited(11));
  ASSERT_EQ(failed.Plan().events.size(), 1u);
  EXPECT_EQ(failed.Plan().events[0].reason, "EvaluatorFailed");
  const Plan permanent = failed.Write().Plan();
  EXPECT_EQ(permanent.status.state, "Succeeded");
  EXPECT_EQ(FindCondition(permanent.status, kSucceeded)->message,
            "worker-0 has finished; the Evaluator has not finished: evaluator-0 exited with code "
            "11");
  Seen counted = Trained(Exited(11));
  counted.With([](Observed& observed) {
    observed.job.status.counted_pods.push_back(observed.pods.back().uid);
  });
  EXPECT_EQ(counted.Plan().status.state, "Succeeded") << "it had failed during training";
  Seen spent = Trained(Exited(137));
  spent.With([](Observed& observed) {
    observed.job.status.restarts.application = observed.job.spec.run_policy.backoff_limit;
  });
  EXPECT_NE(spent.Plan().status.state, "Succeeded") << "the budget is not the Evaluator's";
  Seen suspended = Trained(kBeingDeleted);
  suspended.With([](Observed& observed) { observed.job.spec.suspend = true; });
  EXPECT_EQ(suspended.Plan().status.state, "Succeeded");
  EXPECT_EQ(FindCondition(Trained(Exited(0)).Plan().status, kSucceeded)->message,
            "worker-0 has finished");
}

// A drained node may have both; the workers' indexes are in the status.
TEST(FinishRuleTest, WithoutTheLeadersPodTheLastReportTellsWhenTrainingEnded) {
  Seen seen = Trained(kReady);
  seen.Write().NoPods().With([](Observed& observed) {
    observed.job.status.progress.emplace().update_time = Time(seconds(1'700'000'000));
  });
  ASSERT_EQ(seen.Build().job.status.completed_indexes.size(), 1u);
  EXPECT_NE(seen.Plan().status.state, "Succeeded");
  EXPECT_TRUE(MakesPods(seen.Plan()));
  EXPECT_EQ(seen.Later(minutes(4)).Plan().status.state, "Succeeded");
}

}  // namespace
}  // namespace lockstep::controller
