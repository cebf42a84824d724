#include "operator/controller/rules/parts/group_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>
#include <variant>

#include "operator/controller/children/pod_revision.h"
#include "operator/controller/rules/make_plan.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/rules/parts/progress_deadline.h"
#include "operator/controller/rules/parts/readiness.h"
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
  return seen.With([workers](Observed& observed) {
    observed.group.workers = workers;
    observed.group.answers = true;
  });
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
  EXPECT_FALSE(LacksReplicas(seen.Build())) << "the group trains without it";
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
  EXPECT_TRUE(IsSilentForScale(seen.Build())) << "but the group may have grown since";
  EXPECT_EQ(WorkersToTell(seen.Build()), 1);
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  Says(seen, 1);
  EXPECT_FALSE(IsSilentForScale(seen.Build()));
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

// Its own number is that of the spec, for which there is no room yet.
TEST(GroupSizeTest, ALeadingPodThatWasReplacedIsToldWhoCanBeThere) {
  Seen seen = Running();
  Says(Scale(seen, 3), 3);
  seen.With([](Observed& observed) { observed.pods[0].cluster_shape = "worker=3"; });
  seen.Worker(2, [](ObservedPod& pod) { pod.cluster_shape = "worker=3"; });
  EXPECT_EQ(WorkersToTell(seen.Build()), 2);
  seen.With([](Observed& observed) { observed.started_workers = {0, 1, 2}; });
  EXPECT_EQ(WorkersToTell(seen.Build()), 3) << "worker 2 was lost, and is waited for";
  seen.With([](Observed& observed) {
    observed.started_workers.clear();
    kReady(observed.pods[2]);
  });
  EXPECT_EQ(WorkersToTell(seen.Build()), 3);
}

// A member may have been lost, which a new operator has not seen run.
TEST(GroupSizeTest, AMemberThatTheLeadingPodMissesIsWaitedFor) {
  Seen seen = Running();
  Scale(seen, 3).With([](Observed& observed) { observed.pods[0].cluster_shape = "worker=3"; });
  seen.Worker(2, [](ObservedPod& pod) { pod.cluster_shape = "worker=3"; });
  EXPECT_EQ(WorkersToTell(seen.Build()), 0) << "it has not answered";
  Says(seen, 3).With([](Observed& observed) { observed.group.missing = {"worker-2"}; });
  EXPECT_EQ(WorkersToTell(seen.Build()), 3);
  seen.With([](Observed& observed) { observed.group.missing.clear(); });
  EXPECT_EQ(WorkersToTell(seen.Build()), 2);
  seen.With([](Observed& observed) { observed.group.answers = false; });
  EXPECT_EQ(WorkersToTell(seen.Build()), 0) << "nor has it to the last question";
}

// It was made for two, has grown to four and is to have three.
TEST(GroupSizeTest, NoWorkerGoesBeforeTheLeadingPodHasSaidHowManyThereAre) {
  Seen seen(Bundled());
  seen.Running();
  Scale(seen, 3);
  for (int index = 0; index < 4; ++index) {
    seen.Worker(index, MadeFor(index < 2 ? "worker=2" : "worker=4"));
  }
  seen.With([](Observed& observed) { observed.tells_workers = true; });
  EXPECT_TRUE(IsSilentForScale(seen.Build()));
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  Says(seen, 4);
  EXPECT_FALSE(IsSilentForScale(seen.Build()));
  EXPECT_THAT(seen.Write().Plan().actions, IsEmpty());
  Says(seen, 3);
  EXPECT_THAT(seen.Write().Plan().actions, ElementsAre(DeletePod{"j-worker-3", "j-worker-3-uid"}));
}

TEST(GroupSizeTest, AJobAtItsFirstStartWaitsForAllWorkers) {
  Seen seen(Bundled());
  seen.Running();
  seen.Worker(0, MadeFor("worker=2"));
  seen.Worker(1, [](ObservedPod& pod) { pod.cluster_shape = "worker=2"; });
  seen.With([](Observed& observed) {
    observed.tells_workers = true;
    observed.group = {.workers = 2, .resizes = true};
  });
  EXPECT_EQ(WorkersToTell(seen.Build()), 2);
}

TEST(GroupSizeTest, ANewOperatorLeavesAGroupThatHasFollowedBeforeAlone) {
  for (const bool leader_runs : {false, true}) {
    Seen seen(Bundled());
    seen.Running();
    Scale(seen, 3);
    for (int index = 0; index < 3; ++index) {
      seen.Worker(index, MadeFor(index < 2 ? "worker=2" : "worker=3"));
    }
    seen.With([=](Observed& observed) {
      observed.tells_workers = true;  // and the leading pod has not answered
      observed.resizing_since.reset();
      if (!leader_runs) observed.pods.erase(observed.pods.begin());
    });
    EXPECT_EQ(seen.Plan().status.attempt, 0) << leader_runs;
    EXPECT_FALSE(MustAskFirst(seen.Build())) << "the two minutes do not count";
  }
}

// The spec and the group have two of three workers, as the pods that are left note.
Seen Shrunk() {
  Seen seen(Bundled());
  seen.Running();
  seen.Worker(0, MadeFor("worker=3")).Worker(1, MadeFor("worker=3"));
  return seen.With([](Observed& observed) {
    observed.tells_workers = true;
    observed.job.status.group_workers = 2;
  });
}

TEST(GroupSizeTest, ANewOperatorLeavesAGroupThatHasShrunkAlone) {
  for (const bool leader_runs : {false, true}) {
    Seen seen = Shrunk();
    if (!leader_runs) seen.With([](Observed& o) { o.pods.erase(o.pods.begin()); });
    EXPECT_EQ(seen.Plan().status.attempt, 0) << leader_runs;
    EXPECT_EQ(seen.Plan().status.group_workers, 2) << "no answer says otherwise";
    EXPECT_FALSE(IsResizing(seen.Build()));
    EXPECT_FALSE(MustAskFirst(seen.Build())) << "the two minutes do not count";
  }
}

TEST(GroupSizeTest, AGroupThatDoesNotFollowBackToTheNumberOfAllNotesStartsAgain) {
  Seen seen = Shrunk();
  Says(Scale(seen, 3), 2).Worker(2, MadeFor("worker=3"));
  seen.With([](Observed& observed) {
    observed.group.resizes = true;
    observed.resizing_since = observed.now;
  });
  EXPECT_EQ(seen.Write().Plan().status.attempt, 0);
  const Plan plan = seen.Later(kFollowsWithin).Plan();
  EXPECT_EQ(plan.status.attempt, 1);
  EXPECT_EQ(plan.status.group_workers, std::nullopt) << "the next attempt has the spec's";
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(
      plan.events[0].message,
      "the job's group has not followed from 2 to 3 workers; all replicas restart, which does "
      "not count against backoffLimit");
}

// As above, after the group has shrunk: the third worker has been scaled away since.
TEST(GroupSizeTest, ALeadingPodOfAGroupThatHasShrunkIsToldWhoCanBeThere) {
  Seen seen = Shrunk();
  Says(Scale(seen, 3), 3);
  seen.Worker(2, [](ObservedPod& pod) { pod.cluster_shape = "worker=3"; });
  EXPECT_EQ(WorkersToTell(seen.Write().Build()), 2);
  EXPECT_EQ(WorkersToTell(seen.Write().Build()), 2) << "what it begins with is not noted";
  seen.With([](Observed& observed) { kReady(observed.pods[2]); });
  EXPECT_EQ(WorkersToTell(seen.Write().Build()), 3);
  EXPECT_EQ(seen.Plan().status.group_workers, 3);
}

TEST(GroupSizeTest, TheStatusHasTheGroupsNumberOnceItIsNotThatOfItsPods) {
  Seen seen = Running();
  EXPECT_EQ(Says(seen, 2).Plan().status.group_workers, std::nullopt);
  EXPECT_EQ(Says(Scale(seen, 1), 1).Write().Plan().status.group_workers, 1);
  Says(Scale(seen, 2), 2);
  EXPECT_EQ(seen.Write().Plan().status.group_workers, 1) << "the worker's pod is to go";
  seen.With([](Observed& observed) { observed.pods[1].uid = "another"; });
  EXPECT_EQ(seen.Write().Plan().status.group_workers, 2);
}

TEST(GroupSizeTest, AnEditOfMoreThanTheNumberStartsAllAgain) {
  for (const bool is_edited : {false, true}) {
    Seen seen = Running();
    Says(Scale(seen, 3), 2).With([=](Observed& observed) {
      const std::string hash = SpecHash(observed.job, Role::kWorker);
      for (ObservedPod& pod : observed.pods) pod.spec_hash = is_edited ? hash + "0" : hash;
    });
    EXPECT_EQ(seen.Plan().status.attempt, is_edited ? 1 : 0);
    Says(seen, 3);
    EXPECT_EQ(seen.Plan().status.attempt, 0) << "it has followed before the edit";
  }
}

TEST(GroupSizeTest, AWorkerWithoutRoomIsNotLookedForEachSecond) {
  Seen seen = Running();
  Says(Scale(seen, 3), 2);
  seen.Worker(2, [](ObservedPod& pod) { pod.cluster_shape = "worker=3"; });
  const auto after = [&seen] { return seen.Plan().requeue_after; };
  EXPECT_TRUE(!after() || *after() > std::chrono::seconds(1));
  seen.With([](Observed& observed) { observed.resizing_since = observed.now; });
  EXPECT_EQ(after(), std::chrono::seconds(1));
}

TEST(GroupSizeTest, AWorkerWithoutRoomHidesNoHang) {
  Seen seen = Running();
  Says(Scale(seen, 3), 2).With([](Observed& observed) {
    observed.job.spec.run_policy.progress_deadline_seconds = 60;
  });
  seen.Worker(2, [](ObservedPod& pod) { pod.cluster_shape = "worker=3"; });
  EXPECT_TRUE(IsComplete(seen.Build()));
  seen.With([](Observed& observed) { observed.pods[1].phase = PodPhase::kPending; });
  EXPECT_FALSE(IsComplete(seen.Build())) << "a member is missing";
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

// A save takes seconds, and a volume may stay full for days.
TEST(GroupSizeTest, OnlyASaveIsLookedAtEachSecond) {
  for (const bool saves : {true, false}) {
    Seen seen = Running();
    Scale(Says(seen, 2), 1).With([saves](Observed& observed) {
      observed.group.saves = saves;
      observed.group.keeps_workers = !saves;
    });
    const Duration status_interval = seen.Build().settings.status_interval;
    EXPECT_EQ(seen.Plan().requeue_after, saves ? std::chrono::seconds(1) : status_interval);
  }
}

// By the processor's time, which does not depend on what else runs.
double SecondsToPlan(Seen& seen) {
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const Observed& observed = seen.Build();
  const double start = used();
  MakePlan(observed);
  return used() - start;
}

TEST(GroupSizeTest, AJobOfThousandsIsPlannedAsFastWhileItsLeadingPodDoesNotRun) {
  constexpr int kWorkers = 3000;
  Seen seen(Bundled().Workers(kWorkers));
  seen.Running().With([](Observed& observed) {
    observed.tells_workers = true;
    observed.group.resizes = true;
  });
  for (int i = 0; i < kWorkers; ++i) {
    seen.Worker(i, MadeFor("worker=" + std::to_string(kWorkers)));
  }
  Scale(seen, kWorkers / 2);
  const double while_it_runs = SecondsToPlan(seen);
  seen.With([](Observed& observed) { observed.pods.front().phase = PodPhase::kPending; });
  EXPECT_LT(SecondsToPlan(seen), 0.02 + 20 * while_it_runs);
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
