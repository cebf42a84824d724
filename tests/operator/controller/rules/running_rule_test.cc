#include "operator/controller/rules/running_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::Exited;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kPending;
using testing::kReady;
using testing::Seen;
using ::testing::SizeIs;

std::vector<std::string> Reasons(const Plan& plan) {
  std::vector<std::string> reasons;
  for (const PlannedEvent& event : plan.events) reasons.push_back(event.reason);
  return reasons;
}

TEST(RunningRuleTest, ANewJobGetsItsServiceAndAllPodsAtOnce) {
  const Plan plan = Seen(Job("j").Chief().Workers(2)).Plan();
  EXPECT_THAT(plan.actions,
              ElementsAre(CreateService{}, CreatePod{Role::kChief, 0, 0},
                          CreatePod{Role::kWorker, 0, 0}, CreatePod{Role::kWorker, 1, 0}));
  EXPECT_TRUE(IsTrue(plan.status, kCreated));
  EXPECT_TRUE(plan.status.start_time);
  EXPECT_EQ(plan.status.state, "Pending");
  EXPECT_THAT(plan.events, IsEmpty());
}

// One look more at the job is asked for when there are more actions than that.
TEST(RunningRuleTest, ALargeJobsPlanHoldsNoMoreThanOneReconcileCreates) {
  const std::size_t most = Settings{}.most_actions;
  const Plan plan = Seen(Job("j").Workers(10'000)).Service().Plan();
  EXPECT_EQ(plan.actions.size(), most + 1);
}

TEST(RunningRuleTest, OnlyMissingPodsAreCreated) {
  const Plan plan = Seen(Job("j").Workers(3)).Service().Worker(1, kPending).Plan();
  EXPECT_THAT(plan.actions,
              ElementsAre(CreatePod{Role::kWorker, 0, 0}, CreatePod{Role::kWorker, 2, 0}));
}

TEST(RunningRuleTest, RunningWhenEveryRequiredReplicaIsReadyOrDone) {
  struct Case {
    const char* name;
    Seen seen;
    bool running;
  };
  const auto two = Job("j").Workers(2).ParameterServers(1);
  const auto sparse = testing::JobBuilder(two).Strategy(api::StrategyType::kParameterServer);
  const auto bounds = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 2}; };
  const auto torch = Job("j").Workers(2).PodTemplate(Role::kWorker, testing::Template("pytorch"));
  const auto jax = Job("j").Workers(2).PodTemplate(Role::kWorker, testing::Template("jax"));
  const auto any = Job("j").Workers(2).PodTemplate(Role::kWorker, testing::Template("main"));
  const auto server = [](Seen seen) { return seen.Pod(Role::kParameterServer, 0, kReady); };
  const auto one_of = [&bounds](testing::JobBuilder job) {
    return Seen(job.With(bounds)).Worker(0, kReady).Worker(1, kPending);
  };
  const Case cases[] = {
      {"all ready", server(Seen(two).Worker(0, kReady).Worker(1, kReady)), true},
      {"one done", server(Seen(two).Worker(0, kReady).Worker(1, Exited(0))), true},
      {"one pending", server(Seen(two).Worker(0, kReady).Worker(1, kPending)), false},
      {"one absent", server(Seen(two).Worker(0, kReady)), false},
      {"no server", Seen(two).Worker(0, kReady).Worker(1, kReady), false},
      {"torchrun's minimum", one_of(torch), true},
      {"any program's minimum", one_of(any), true},
      {"the minimum with servers", server(one_of(sparse)), true},
      {"the minimum with servers, and no strategy that says so", server(one_of(two)), true},
      {"servers in a gang",
       server(one_of(testing::JobBuilder(two).RestartScope(api::RestartScope::kGang))), false},
      {"TensorFlow is told of all", one_of(Job("j").Workers(2)), false},
      {"JAX is told of all", one_of(jax), false},
      {"the bundled trainer is told of all", one_of(Job("j").Workers(2).Training()), false},
      {"evaluator is nobody's peer", Seen(Job("j").Workers(1).Evaluator()).Worker(0, kReady), true},
  };
  for (Case c : cases) {
    const Plan plan = c.seen.Service().Plan();
    EXPECT_EQ(IsTrue(plan.status, kRunning), c.running) << c.name;
    EXPECT_EQ(plan.status.state, c.running ? "Running" : "Pending") << c.name;
  }
}

TEST(RunningRuleTest, RunningIsReportedOnceAndStaysWithinAnAttempt) {
  Seen seen(Job("j").Workers(2));
  seen.Service().Worker(0, kReady).Worker(1, kReady);
  EXPECT_THAT(Reasons(seen.Plan()), ElementsAre("Running"));
  seen.Write();
  EXPECT_THAT(Reasons(seen.Plan()), IsEmpty());
  seen.With([](Observed& observed) { observed.pods[1].ready = false; });
  EXPECT_TRUE(IsTrue(seen.Plan().status, kRunning));
}

TEST(RunningRuleTest, NoPodIsCreatedWhileAnEarlierAttemptIsStillThere) {
  Seen seen(Job("j").Workers(2));
  seen.Service().Worker(0, kReady).Worker(1, kBeingDeleted);
  seen.With([](Observed& observed) { observed.job.status.attempt = 1; });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid"}));
}

TEST(RunningRuleTest, NoReplicaWaitsForAnEarlierEvaluator) {
  Seen seen(Job("j").Workers(1).Evaluator());
  seen.Service().Pod(Role::kEvaluator, 0, kBeingDeleted);
  seen.With([](Observed& observed) { observed.job.status.attempt = 1; });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 0, 1}));
}

TEST(RunningRuleTest, BackOffDelaysTheNextPods) {
  Seen seen(Job("j").Workers(1));
  seen.Service().With(
      [](Observed& observed) { observed.job.status.next_retry_time = observed.now + seconds(20); });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, seconds(20));
  EXPECT_THAT(seen.Later(seconds(20)).Plan().actions, ElementsAre(CreatePod{Role::kWorker, 0, 0}));
}

TEST(RunningRuleTest, PodsBeyondTheReplicaCountGo) {
  Seen seen(Job("j").Workers(2));
  seen.Service().Worker(0, kReady).Worker(1, kReady).Worker(2, kReady);
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty()) << "the status is written first";
  EXPECT_THAT(plan.status.counted_pods, ElementsAre("j-worker-2-uid"));
  EXPECT_FALSE(plan.status_can_wait);
  EXPECT_THAT(seen.Write().Plan().actions, ElementsAre(DeletePod{"j-worker-2", "j-worker-2-uid"}));
}

TEST(RunningRuleTest, ThousandsOfPodsBeyondTheReplicaCountGoInSeveralPlans) {
  Seen seen(Job("j").Workers(1));
  seen.With([](Observed& observed) { observed.settings.most_actions = 2; }).Service();
  for (int i = 0; i < 4; ++i) seen.Worker(i, kReady);
  EXPECT_THAT(seen.Plan().status.counted_pods, ElementsAre("j-worker-1-uid", "j-worker-2-uid"));
  EXPECT_THAT(seen.Write().Plan().actions, SizeIs(2));
  seen.NoPods().Worker(0, kReady).Worker(3, kReady);  // as they have gone
  EXPECT_THAT(seen.Plan().status.counted_pods, ElementsAre("j-worker-3-uid"));
}

TEST(RunningRuleTest, ANameThatAnotherOwnerHasIsReportedAndLeftToIt) {
  Seen seen(Job("j").Workers(2));
  seen.With([](Observed& observed) { observed.name_conflicts = {"j-worker-1"}; });
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, ElementsAre(CreateService{}, CreatePod{Role::kWorker, 0, 0}));
  EXPECT_EQ(FindCondition(plan.status, kRunning)->reason, "NameConflict");
  EXPECT_THAT(Reasons(plan), ElementsAre("NameConflict"));
  EXPECT_EQ(plan.requeue_after, std::chrono::minutes(1));
  EXPECT_THAT(Reasons(seen.Write().Plan()), IsEmpty());
}

TEST(RunningRuleTest, OverriddenEnvironmentIsReportedAtFirstSight) {
  api::Json pod_template = testing::Template();
  pod_template["spec"]["containers"][0]["env"] = {{{"name", "TF_CONFIG"}, {"value", "{}"}}};
  Seen seen(Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template));
  EXPECT_THAT(Reasons(seen.Plan()), ElementsAre("EnvironmentOverridden"));
  EXPECT_THAT(Reasons(seen.Write().Plan()), IsEmpty());
  Seen suspended(Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template).Suspended());
  EXPECT_THAT(Reasons(suspended.Plan()), ElementsAre("Suspended", "EnvironmentOverridden"));
  EXPECT_THAT(Reasons(suspended.Write().Plan()), IsEmpty());
}

TEST(RunningRuleTest, AnEditThatReachesNoPodIsReportedOnce) {
  Seen seen(Job("j").Workers(2));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) pod.spec_hash = SpecHash(observed.job, Role::kWorker);
    ++observed.job.metadata.generation;
  });
  EXPECT_THAT(Reasons(seen.Plan()), IsEmpty()) << "an edit that concerns no pod";
  seen.With([](Observed& observed) {
    observed.job.spec.replica_specs[Role::kWorker].tmpl = testing::Template("tensorflow", "b:2");
  });
  ASSERT_THAT(Reasons(seen.Plan()), ElementsAre("EditIgnored"));
  EXPECT_EQ(
      seen.Plan().events[0].message,
      "the edit reaches pods only when they are made: j-worker-0 and 1 others keep what they "
      "were told; to start them all again, suspend the job, wait for its condition Suspended, "
      "and resume it");
  EXPECT_THAT(Reasons(seen.Write().Plan()), IsEmpty());
}

// The plan that notes the edit is another rule's.
TEST(RunningRuleTest, AnEditThatReachesNoPodIsReportedBesideAFailure) {
  const auto after_edit = [](api::RestartScope scope) {
    Seen seen(Job("j").Workers(2).RestartScope(scope));
    seen.Running().Worker(0, kReady).Worker(1, testing::Exited(137));
    seen.With([](Observed& observed) {
      for (ObservedPod& pod : observed.pods) pod.spec_hash = SpecHash(observed.job, Role::kWorker);
      ++observed.job.metadata.generation;
      observed.job.spec.replica_specs[Role::kWorker].tmpl = testing::Template("tensorflow", "b:2");
    });
    return Reasons(seen.Plan());
  };
  EXPECT_THAT(after_edit(api::RestartScope::kPod), ElementsAre("Restarting", "EditIgnored"));
  EXPECT_THAT(after_edit(api::RestartScope::kGang), ElementsAre("Restarting"))
      << "all pods are replaced";
}

TEST(RunningRuleTest, AfterAnUpgradeOfTheOperatorNoPodIsTakenForOlderThanAnEdit) {
  Seen seen(Job("j").Workers(2).Training());
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  seen.With([](Observed& observed) {
    // As the first operators wrote it for this very spec.
    for (ObservedPod& pod : observed.pods) pod.spec_hash = "70c1ad2bbdd9fe3a";
    observed.job.spec.run_policy.backoff_limit = 9;
    ++observed.job.metadata.generation;
  });
  EXPECT_THAT(Reasons(seen.Plan()), IsEmpty());
}

// The quickest of a few, in seconds.
double TimeOf(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

// With a large template one hash takes as long as planning for hundreds of pods.
TEST(RunningRuleTest, AnEditCostsOneHashForEachRoleNotForEachPod) {
  api::Json tmpl = testing::Template();
  tmpl["spec"]["containers"][0]["args"] = {std::string(200 * 1024, 'x')};
  constexpr int kPods = 1000;
  Seen seen(Job("j").Workers(kPods).PodTemplate(Role::kWorker, tmpl));
  const std::string hash = SpecHash(seen.Build().job, Role::kWorker);
  seen.Running();
  for (int i = 0; i < kPods; ++i) {
    seen.Worker(i, [&hash](ObservedPod& pod) {
      kReady(pod);
      pod.spec_hash = hash;
    });
  }
  seen.With([](Observed& observed) { ++observed.job.metadata.generation; });
  const Observed& observed = seen.Build();
  const double one = TimeOf([&observed] { (void)SpecHash(observed.job, Role::kWorker); });
  const double edit = TimeOf([&observed] { (void)PlanRunning(observed); });
  EXPECT_LT(edit, kPods / 10 * one);
}

TEST(RunningRuleTest, AJobWithoutReplicasIsNeitherRunningNorDone) {
  for (const auto policy : {api::SuccessPolicy::kAllWorkers, api::SuccessPolicy::kChiefOrWorker0}) {
    const Plan plan = Seen(Job("j").Workers(0).SuccessPolicy(policy)).Plan();
    EXPECT_EQ(plan.status.state, "Pending");
  }
}

}  // namespace
}  // namespace lockstep::controller
