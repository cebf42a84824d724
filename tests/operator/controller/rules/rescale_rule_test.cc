#include "operator/controller/rules/rescale_rule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/v1/names.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/world.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::RestartScope;
using api::Role;
using api::StrategyType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::PodState;
using testing::Seen;
using ::testing::UnorderedElementsAre;
using testing::World;

testing::JobBuilder Elastic(RestartScope scope) {
  return Job("j").Workers(2).RestartScope(scope).With(
      [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; });
}

PodState MadeFor(const std::string& shape) {
  return [shape](ObservedPod& pod) {
    kReady(pod);
    pod.cluster_shape = shape;
  };
}

// Two workers run; then somebody scales.
Seen Scaled(const testing::JobBuilder& job, int workers) {
  Seen seen(job);
  seen.Running();
  const std::string shape = ClusterShape(seen.Build().job);
  seen.Worker(0, MadeFor(shape)).Worker(1, MadeFor(shape));
  seen.With([workers](Observed& observed) {
    observed.job.spec.replica_specs[Role::kWorker].replicas = workers;
  });
  return seen;
}

TEST(RescaleRuleTest, AGangStartsAgainInItsNewSizeFreeOfCharge) {
  for (const RestartScope scope : {RestartScope::kGang, RestartScope::kInPlace}) {
    Seen seen = Scaled(Elastic(scope), 3);
    const Plan plan = seen.Plan();
    EXPECT_THAT(plan.actions, IsEmpty());
    EXPECT_EQ(plan.status.attempt, 1);
    EXPECT_EQ(plan.status.restarts, api::RestartCounts{});
    EXPECT_EQ(plan.status.state, "Restarting");
    EXPECT_EQ(FindCondition(plan.status, kRestarting)->reason, "Rescaled");
    ASSERT_EQ(plan.events.size(), 1U);
    EXPECT_EQ(plan.events[0].message,
              "the job's size has changed from worker=2 to worker=3; all replicas restart, which "
              "does not count against backoffLimit");
    EXPECT_THAT(seen.Write().Plan().actions,
                UnorderedElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid"},
                                     DeletePod{"j-worker-1", "j-worker-1-uid"}));
    EXPECT_THAT(seen.NoPods().Plan().actions,
                ElementsAre(CreatePod{Role::kWorker, 0, 1}, CreatePod{Role::kWorker, 1, 1},
                            CreatePod{Role::kWorker, 2, 1}));
  }
}

TEST(RescaleRuleTest, ASmallerGangTooEvenBeforeItHasRun) {
  Seen seen(Elastic(RestartScope::kGang));
  seen.Service().Worker(0, MadeFor("worker=3")).Worker(1, MadeFor("worker=2"));
  EXPECT_EQ(seen.Plan().status.attempt, 1);
}

TEST(RescaleRuleTest, AFailureThatComesWithItIsStillCharged) {
  Seen seen = Scaled(Elastic(RestartScope::kGang), 3);
  seen.With([](Observed& observed) { testing::Exited(137)(observed.pods[1]); });
  EXPECT_EQ(seen.Plan().status.restarts.application, 1);
  EXPECT_EQ(seen.Plan().status.attempt, 1);
}

TEST(RescaleRuleTest, ProgramsThatFindTheirPeersJustGetAPodMore) {
  Seen grown = Scaled(Elastic(RestartScope::kPod), 3);
  EXPECT_THAT(grown.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 2, 0}));
  EXPECT_EQ(grown.Plan().status.state, "Running");
  Seen shrunk = Scaled(Elastic(RestartScope::kPod), 1);
  EXPECT_THAT(shrunk.Write().Plan().actions,
              ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
  EXPECT_EQ(shrunk.Plan().status.attempt, 0);
}

// A running elastic job of torchrun, whose pods were told of 2 to 4 workers.
Seen ToldOfTwoToFour() {
  Seen seen(Elastic(RestartScope::kPod).With([](api::TrainingJob& job) {
    job.spec.elastic = api::ElasticSpec{2, 4};
  }));
  seen.Running();
  const PodState told = [](ObservedPod& pod) {
    MadeFor("elastic")(pod);
    pod.elastic_peers = "chief=0,ps=0";
    pod.elastic_bounds = "2:4";
  };
  seen.Worker(0, told).Worker(1, told);
  return seen;
}

void EditBounds(Seen& seen, api::ElasticSpec bounds, int workers) {
  seen.With([bounds, workers](Observed& observed) {
    observed.job.spec.elastic = bounds;
    observed.job.spec.replica_specs[Role::kWorker].replicas = workers;
    ++observed.job.metadata.generation;
  });
}

TEST(RescaleRuleTest, AnEditOfTheBoundsAloneReachesOnlyLaterPodsAndSaysSo) {
  for (const int workers : {2, 3, 4}) {
    Seen seen = ToldOfTwoToFour();
    EditBounds(seen, {1, 8}, workers);
    const Plan plan = seen.Plan();
    EXPECT_EQ(plan.status.attempt, 0);
    ASSERT_EQ(plan.events.size(), 1U);
    EXPECT_EQ(plan.events[0].reason, "EditIgnored");
    EXPECT_THAT(plan.events[0].message, ::testing::HasSubstr("j-worker-0 and 1 others"));
  }
  Seen same = ToldOfTwoToFour();
  EditBounds(same, {2, 4}, 3);
  EXPECT_THAT(same.Plan().events, IsEmpty()) << "only the number has changed";
}

TEST(RescaleRuleTest, EachPairOfBoundsIsWarnedOfOnce) {
  Seen seen = ToldOfTwoToFour();
  EditBounds(seen, {1, 8}, 2);
  ASSERT_EQ(seen.Plan().events.size(), 1U);
  EXPECT_EQ(seen.Plan().events[0].message,
            "the bounds of elastic, 1 to 8 workers, reach pods only when they are made: j-worker-0 "
            "and 1 others keep what they were told; to start them all again, suspend "
            "the job, wait for its condition Suspended, and resume it");
  EditBounds(seen.Write(), {1, 8}, 3);
  EXPECT_THAT(seen.Plan().events, IsEmpty()) << "an autoscaler's step";
  seen.Write().With([](Observed& observed) {
    observed.job.spec.run_policy.backoff_limit = 9;
    ++observed.job.metadata.generation;
  });
  EXPECT_THAT(seen.Plan().events, IsEmpty());
  EditBounds(seen.Write(), {1, 6}, 3);
  EXPECT_EQ(seen.Plan().events.size(), 1U) << "another pair";
  EditBounds(seen.Write(), {2, 4}, 3);
  EXPECT_THAT(seen.Plan().events, IsEmpty()) << "what the pods were told";
  EditBounds(seen.Write(), {1, 6}, 3);
  EXPECT_EQ(seen.Plan().events.size(), 1U) << "edited again";
}

// The memory of it is the reconciler's.
TEST(RescaleRuleTest, AnAutoscalersStepsRepeatNoWarning) {
  World world(Elastic(RestartScope::kPod)
                  .PodTemplate(api::Role::kWorker, testing::Template("pytorch"))
                  .Build());
  const auto edit = [&world](int most, int workers) {
    world.client.Modify(kTrainingJobKind, world.key, [&](kube::Object& job) {
      job["spec"]["elastic"]["maxReplicas"] = most;
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = workers;
      job["metadata"]["generation"] = job["metadata"]["generation"].get<int>() + 1;
    });
    world.Settle();
  };
  world.Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  edit(8, 2);
  edit(8, 3);
  edit(8, 4);
  const auto reasons = world.EventReasons();
  EXPECT_EQ(std::ranges::count(reasons, "EditIgnored"), 1);
}

TEST(RescaleRuleTest, AgentsThatWereToldOfFewerWorkersStartAgainWithTheOthers) {
  for (const auto& [bounds, workers] :
       {std::pair(api::ElasticSpec{1, 8}, 5), std::pair(api::ElasticSpec{1, 4}, 1)}) {
    Seen seen = ToldOfTwoToFour();
    EditBounds(seen, bounds, workers);
    const Plan plan = seen.Plan();
    EXPECT_THAT(plan.actions, IsEmpty());
    EXPECT_EQ(plan.status.attempt, 1);
    EXPECT_EQ(plan.status.restarts, api::RestartCounts{});
    ASSERT_EQ(plan.events.size(), 1U);
    EXPECT_EQ(plan.events[0].reason, "Rescaled");
    EXPECT_EQ(plan.events[0].message,
              fmt::format("the job's size has changed to {} workers, and j-worker-0 was told to "
                          "expect 2 to 4; all replicas restart, which does not count against "
                          "backoffLimit",
                          workers));
  }
}

TEST(RescaleRuleTest, ElasticPodsThatKnowAnotherLeaderOrOtherServersStartAgain) {
  const auto job = Elastic(RestartScope::kGang)
                       .Chief()
                       .ParameterServers(2)
                       .Strategy(StrategyType::kParameterServer);
  for (const auto& [peers, attempt] :
       {std::pair("chief=1,ps=2", 0), std::pair("chief=1,ps=1", 1), std::pair("chief=0,ps=2", 1),
        std::pair("", 0)}) {  // an operator that noted none, before an upgrade or after a roll-back
    const PodState told = [peers](ObservedPod& pod) {
      MadeFor("elastic")(pod);
      pod.elastic_peers = peers;
    };
    Seen seen(job);
    seen.Running().Pod(Role::kChief, 0, told).Worker(0, told).Worker(1, told);
    seen.Pod(Role::kParameterServer, 0, told).Pod(Role::kParameterServer, 1, told);
    EXPECT_EQ(seen.Plan().status.attempt, attempt) << peers;
  }
}

// Suspended, edited and resumed while the operator was being replaced.
TEST(RescaleRuleTest, AnElasticJobNeverRunsWithTwoListsOfServersAtOnce) {
  World world(Elastic(RestartScope::kPod)
                  .ParameterServers(1)
                  .Strategy(StrategyType::kParameterServer)
                  .Build());
  world.Settle();
  for (const char* name : {"j-ps-0", "j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key,
                      [](kube::Object& job) { job["spec"]["replicaSpecs"]["PS"]["replicas"] = 2; });
  world.Settle();
  ASSERT_EQ(world.Pods().size(), 4U);
  for (const kube::Object& pod : world.Pods()) {
    EXPECT_EQ(kube::Label(pod, api::kLabelAttempt), "1") << kube::Name(pod);
    const std::string env = pod.at("spec").at("containers")[0].at("env").dump();
    EXPECT_NE(env.find("j-ps-1"), std::string::npos) << kube::Name(pod);
  }
  EXPECT_THAT(world.EventReasons(), ::testing::Contains("Rescaled"));
}

TEST(RescaleRuleTest, WorkersOfParameterServersComeAndGoEvenInAGang) {
  const auto job =
      Elastic(RestartScope::kGang).ParameterServers(1).Strategy(StrategyType::kParameterServer);
  Seen seen(job);
  seen.Service().Pod(Role::kParameterServer, 0, kReady).Worker(0, kReady).Worker(1, kReady).Write();
  seen.With(
      [](Observed& observed) { observed.job.spec.replica_specs[Role::kWorker].replicas = 3; });
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 2, 0}));
  EXPECT_EQ(seen.Plan().status.attempt, 0);
}

// Suspended, edited and resumed while the operator was being replaced.
TEST(RescaleRuleTest, AJobThatIsNotElasticNeverRunsInTwoSizesAtOnce) {
  for (const RestartScope scope : {RestartScope::kGang, RestartScope::kPod}) {
    World world(Job("j").Workers(2).RestartScope(scope).Build());
    world.Settle();
    for (const char* name : {"j-worker-0", "j-worker-1"}) world.SetPod(name, "Running");
    world.Settle();
    world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
      job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 4;
    });
    world.Settle();
    ASSERT_EQ(world.Pods().size(), 4U);
    for (const kube::Object& pod : world.Pods()) {
      EXPECT_EQ(kube::Label(pod, api::kLabelAttempt), "1");
      const std::string env = pod.at("spec").at("containers")[0].at("env").dump();
      EXPECT_NE(env.find("j-worker-3"), std::string::npos) << kube::Name(pod);
    }
    EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{});
    EXPECT_THAT(world.EventReasons(), ::testing::Contains("Rescaled"));
  }
}

TEST(RescaleRuleTest, PodsOfAnOperatorThatRecordedNoSizeAreLeftAlone) {
  Seen seen(Job("j").Workers(2));
  seen.Running().Worker(0, kReady).Worker(1, kReady);
  EXPECT_FALSE(PlanRescaled(seen.Build()));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  // One of them is replaced by this operator, which notes it.
  Seen mixed(Job("j").Workers(2));
  mixed.Running().Worker(0, kReady).Worker(1, MadeFor("worker=2"));
  EXPECT_FALSE(PlanRescaled(mixed.Build()));
}

TEST(RescaleRuleTest, PodsThatKnowTheSizeAreLeftAlone) {
  Seen seen = Scaled(Elastic(RestartScope::kGang), 2);
  EXPECT_FALSE(PlanRescaled(seen.Build()));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
}

void ScaleTo(int workers, Seen& seen) {
  seen.With([workers](Observed& observed) {
    observed.job.spec.replica_specs[Role::kWorker].replicas = workers;
  });
}

// Four workers and a parameter server run.
Seen RunsWithFour(RestartScope scope) {
  Seen seen(Elastic(scope).Workers(4).ParameterServers(1).Strategy(StrategyType::kParameterServer));
  seen.Service().Pod(Role::kParameterServer, 0, kReady);
  for (int i = 0; i < 4; ++i) seen.Worker(i, kReady);
  return seen.Write();
}

TEST(RescaleRuleTest, TheKubeletsRestartsAreKept) {
  Seen seen = RunsWithFour(RestartScope::kPod);
  seen.With([](Observed& observed) { observed.pods.at(3).restart_count = 2; }).Write();
  ScaleTo(3, seen);
  seen.Write().Write().With(
      [](Observed& observed) { observed.pods.erase(observed.pods.begin() + 3); });
  EXPECT_EQ(seen.Plan().status.restarts, api::RestartCounts{.application = 2});
  EXPECT_EQ(seen.Plan().status.restart_count, 2);
  Seen gang = Scaled(Elastic(RestartScope::kInPlace), 3);
  gang.With([](Observed& observed) { observed.pods.at(1).restart_count = 2; });
  EXPECT_EQ(gang.Plan().status.restarts, api::RestartCounts{.application = 2});
}

// As an autoscaler does that changes its mind.
TEST(RescaleRuleTest, AWorkerThatIsWantedAgainWhileItEndsIsNotLost) {
  const auto deleted = [](const PodState& end) -> PodState {
    return [end](ObservedPod& pod) {
      end(pod);
      pod.being_deleted = true;
    };
  };
  const std::pair<const char*, PodState> ends[] = {
      {"is not deleted yet", kReady},
      {"is ending", deleted(kReady)},
      {"ends with success", deleted(testing::Exited(0))},
      {"is killed", deleted(testing::Exited(137))},
      {"fails", deleted(testing::Exited(1))},
  };
  for (const RestartScope scope : {RestartScope::kGang, RestartScope::kPod}) {
    for (const auto& [name, end] : ends) {
      SCOPED_TRACE(fmt::format("{}, scope {}", name, static_cast<int>(scope)));
      Seen seen = RunsWithFour(scope);
      ASSERT_EQ(seen.Build().job.status.state, "Running");
      ScaleTo(3, seen);
      const DeletePod surplus{"j-worker-3", "j-worker-3-uid"};
      EXPECT_THAT(seen.Write().Plan().actions, ElementsAre(surplus));
      ScaleTo(4, seen);
      seen.With([&end](Observed& observed) { end(observed.pods.at(3)); }).Write();
      const api::TrainingJobStatus& status = seen.Build().job.status;
      EXPECT_EQ(status.state, "Running");
      EXPECT_THAT(status.completed_indexes, IsEmpty());
      EXPECT_FALSE(MakesPods(seen.Plan())) << "its name is taken";
      seen.With([](Observed& observed) { observed.pods.erase(observed.pods.begin() + 3); });
      EXPECT_THAT(seen.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 3, 0}));
      EXPECT_EQ(seen.Plan().status.restarts, api::RestartCounts{});
      EXPECT_EQ(seen.Plan().status.attempt, 0);
    }
  }
}

}  // namespace
}  // namespace lockstep::controller
