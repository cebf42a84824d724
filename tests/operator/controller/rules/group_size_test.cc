#include "operator/controller/rules/group_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/plan.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::PodState;
using testing::Seen;

testing::JobBuilder Bundled() {
  return Job("j")
      .Workers(2)
      .RestartScope(api::RestartScope::kInPlace)
      .With([](api::TrainingJob& job) {
        job.spec.elastic = api::ElasticSpec{1, 4};
        job.spec.training = testing::MnistTraining();
        job.spec.training->checkpoint.directory = "/checkpoints";
      });
}

PodState MadeFor(const std::string& shape) {
  return [shape](ObservedPod& pod) {
    kReady(pod);
    pod.cluster_shape = shape;
  };
}

// Two workers run, and the operator can tell their leading pod; an earlier one of the attempt has
// answered.
Seen Running() {
  Seen seen(Bundled());
  seen.Running();
  seen.Worker(0, MadeFor("worker=2")).Worker(1, MadeFor("worker=2"));
  return seen.With([](Observed& observed) {
    observed.tells_workers = true;
    observed.group.resizes = true;
  });
}

Seen& Scale(Seen& seen, int workers) {
  return seen.With([workers](Observed& observed) {
    observed.job.spec.replica_specs[Role::kWorker].replicas = workers;
  });
}

Seen& Says(Seen& seen, int workers) {
  return seen.With([workers](Observed& observed) { observed.group.workers = workers; });
}

TEST(GroupSizeTest, ANewWorkerComesBesideTheOthersWhichAreToldOnceItRuns) {
  Seen seen = Running();
  Says(Scale(seen, 3), 2);
  EXPECT_TRUE(IsResizing(seen.Build()));
  EXPECT_EQ(WorkersToTell(seen.Build()), 0);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 2, 0}));
  EXPECT_EQ(seen.Plan().status.attempt, 0);
  EXPECT_EQ(seen.Plan().status.state, "Running");
  EXPECT_THAT(seen.Plan().events, IsEmpty());
  seen.Write();
  seen.Worker(2, [](ObservedPod& pod) { pod.cluster_shape = "worker=3"; });
  EXPECT_EQ(WorkersToTell(seen.Build()), 0) << "it is Pending";
  seen.With([](Observed& observed) { kReady(observed.pods[2]); });
  EXPECT_EQ(WorkersToTell(seen.Build()), 3);
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  Says(seen, 3);
  EXPECT_FALSE(IsResizing(seen.Build()));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().status.attempt, 0) << "pods that were made for two stay";
  EXPECT_EQ(WorkersToTell(seen.Build()), 3) << "said again to a leading pod that starts again";
}

TEST(GroupSizeTest, AWorkerGoesOnceTheGroupHasLeftItBehind) {
  Seen seen = Running();
  Says(Scale(seen, 1), 2);
  EXPECT_EQ(WorkersToTell(seen.Build()), 1);
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  Says(seen, 1);
  EXPECT_THAT(seen.Write().Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
  EXPECT_EQ(seen.Plan().status.attempt, 0);
  EXPECT_EQ(seen.Plan().status.restarts, api::RestartCounts{});
}

TEST(GroupSizeTest, TheLeadingPodsNoteCountsUntilItHasAnswered) {
  Seen seen = Running();
  Scale(seen, 1);
  EXPECT_EQ(GroupWorkers(seen.Build()), 2);
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  seen.With([](Observed& observed) { observed.pods[0].cluster_shape = "worker=1"; });
  EXPECT_FALSE(IsResizing(seen.Build())) << "a new leading pod has the new size from its start";
  EXPECT_THAT(seen.Write().Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
}

TEST(GroupSizeTest, WithoutALeadingPodNothingIsToldAndItsSuccessorIsMade) {
  Seen seen = Running();
  Scale(seen, 1).With([](Observed& observed) { observed.pods.erase(observed.pods.begin()); });
  EXPECT_EQ(GroupWorkers(seen.Build()), std::nullopt);
  EXPECT_EQ(WorkersToTell(seen.Build()), 0);
  const Plan plan = seen.Plan();
  EXPECT_EQ(plan.status.attempt, 0);
  EXPECT_THAT(plan.actions, ::testing::Contains(Action(CreatePod{Role::kWorker, 0, 0})));
}

TEST(GroupSizeTest, WorkersThatAreTooManyDoNotKeepALeadingPodFromItsRoom) {
  Seen seen = Running();
  Scale(seen, 1).With([](Observed& o) { o.pods[0].phase = PodPhase::kPending; });
  EXPECT_EQ(GroupWorkers(seen.Build()), std::nullopt);
  EXPECT_THAT(seen.Write().Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid"}));
  EXPECT_EQ(seen.Plan().status.attempt, 0);
}

// It would refuse a worker that knows of another number.
TEST(GroupSizeTest, NoWorkerIsMadeBesideATrainerThatMayBeAnEarlierOne) {
  Seen seen = Running();
  Scale(seen, 3).With([](Observed& observed) { observed.group.resizes.reset(); });
  EXPECT_TRUE(MustAskFirst(seen.Build()));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().status.attempt, 0);
  seen.With([](Observed& observed) { observed.resizing_since = observed.now; });
  EXPECT_EQ(seen.Later(kFollowsWithin).Plan().status.attempt, 1) << "it never answers";
}

TEST(GroupSizeTest, WithoutALeadingPodThatCouldSayWhichTrainerItIsAllStartAgain) {
  Seen lost = Running();
  Scale(lost, 3).With([](Observed& observed) {
    observed.group.resizes.reset();
    observed.pods.erase(observed.pods.begin());
  });
  EXPECT_EQ(lost.Plan().status.attempt, 1);
  Seen pending = Running();
  Scale(pending, 1).With([](Observed& observed) {
    observed.group.resizes.reset();
    for (ObservedPod& pod : observed.pods) pod.phase = PodPhase::kPending;
  });
  EXPECT_EQ(pending.Plan().status.attempt, 1) << "no room for two, perhaps";
}

TEST(GroupSizeTest, AGroupThatDoesNotFollowStartsAgain) {
  Seen seen = Running();
  Says(Scale(seen, 1), 2);
  seen.With([](Observed& observed) { observed.resizing_since = observed.now; }).Write();
  EXPECT_EQ(seen.Plan().status.attempt, 0);
  EXPECT_TRUE(seen.Plan().requeue_after.has_value());
  EXPECT_EQ(seen.Later(kFollowsWithin).Plan().status.attempt, 1);
}

TEST(GroupSizeTest, OthersStartAgainAtOnce) {
  const std::pair<const char*, std::function<void(Observed&)>> others[] = {
      {"cannot be told", [](Observed& o) { o.tells_workers = false; }},
      {"an earlier trainer", [](Observed& o) { o.group.resizes = false; }},
      {"a gang's scheduler", [](Observed& o) { o.settings.gang_scheduler_name = "volcano"; }},
      {"scope Gang", [](Observed& o) { o.job.spec.restart_scope = api::RestartScope::kGang; }},
  };
  for (const auto& [name, change] : others) {
    Seen seen = Running();
    Says(Scale(seen, 1), 2).With(change);
    EXPECT_FALSE(ResizesInPlace(seen.Build())) << name;
    EXPECT_EQ(WorkersToTell(seen.Build()), 0) << name;
    EXPECT_EQ(seen.Plan().status.attempt, 1) << name;
  }
}

TEST(GroupSizeTest, AnotherChiefIsNoSizeThatAGroupFollows) {
  Seen seen = Running();
  seen.With([](Observed& observed) {
    for (ObservedPod& pod : observed.pods) pod.cluster_shape = "chief=1,worker=2";
  });
  EXPECT_EQ(seen.Plan().status.attempt, 1);
}

TEST(GroupSizeTest, AnEventTellsOfIt) {
  Seen seen = Running();
  Says(seen, 2).With([](Observed& observed) { observed.resized_from = 3; });
  const Plan plan = seen.Plan();
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "Resized");
  EXPECT_EQ(plan.events[0].message,
            "the group's number of workers has changed from 3 to 2; pods that stay are not started "
            "again");
}

TEST(WorkersOfShapeTest, ReadsTheShapeOfTheSameJob) {
  const api::TrainingJob job = Bundled().BuildWithDefaults();
  EXPECT_EQ(WorkersOfShape(job, "worker=7"), 7);
  for (const char* bad : {"", "worker=", "worker=0", "worker=-1", "worker=02", "chief=1,worker=2",
                          "elastic", "worker=99999999999"}) {
    EXPECT_EQ(WorkersOfShape(job, bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace lockstep::controller
