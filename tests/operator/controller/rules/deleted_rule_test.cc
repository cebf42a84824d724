#include "operator/controller/rules/deleted_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "operator/controller/rules/parts/status.h"
#include "tests/operator/controller/queued_job.h"
#include "tests/operator/controller/world.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

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
using testing::World;

const kube::Key kWorkload{"default", "trainingjob-j"};

Seen Deleted(const testing::JobBuilder& job = Job("j").Workers(3)) {
  return Seen(job).Service().With(
      [](Observed& observed) { observed.job.metadata.deletion_time = observed.now; });
}

const auto kHasWorkload = [](Observed& observed) {
  observed.workload.emplace();
  observed.workload->reserved = observed.workload->admitted = true;
};

// As `kubectl delete --wait=false` leaves a job that has these finalizers.
void Delete(World& world, const std::vector<const char*>& finalizers) {
  world.client.Modify(kTrainingJobKind, world.key,
                      [&](kube::Object& job) { job["metadata"]["finalizers"] = finalizers; });
  const auto job = world.client.Get(kTrainingJobKind, world.key);
  ASSERT_TRUE(job.ok());
  ASSERT_TRUE(world.client.Delete(kTrainingJobKind, world.key, {.uid = kube::Uid(*job)}).ok());
}

void SetRunning(World& world) {
  world.Settle();
  for (const kube::Object& pod : world.Pods()) world.SetPod(kube::Name(pod), "Running");
  world.Settle();
}

TEST(DeletedRuleTest, APodThatHasNotEndedIsDeletedOnce) {
  Seen seen = Deleted(Job("j").Workers(4));
  seen.Worker(0, kReady).Worker(1, kPending).Worker(2, kBeingDeleted).Worker(3, Exited(137));
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, ElementsAre(Action(DeletePod{"j-worker-0", "j-worker-0-uid"}),
                                        Action(DeletePod{"j-worker-1", "j-worker-1-uid"})));
  EXPECT_EQ(plan.status, api::TrainingJobStatus()) << "not even its state is written";
  EXPECT_THAT(plan.events, IsEmpty());
}

TEST(DeletedRuleTest, APodOfALostNodeIsDeletedByForce) {
  Seen seen = Deleted();
  seen.Worker(0, [&](ObservedPod& pod) {
    kBeingDeleted(pod);
    pod.deletion = {.deadline = seen.Build().now, .grace_seconds = 30};
    pod.deleting_since = seen.Build().now;
    pod.node_silent_since = seen.Build().now;
  });
  const Plan plan = seen.Plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.requeue_after, seconds(30)) << "nothing else brings the job back";
  EXPECT_THAT(seen.Later(seconds(30)).Plan().actions,
              ElementsAre(Action(DeletePod{"j-worker-0", "j-worker-0-uid", /*force=*/true})));
}

TEST(DeletedRuleTest, TheWorkloadGoesOnceThePodsHaveEnded) {
  EXPECT_THAT(Deleted().With(kHasWorkload).Worker(0, kBeingDeleted).Plan().actions, IsEmpty())
      << "the pod still uses the quota";
  EXPECT_THAT(Deleted().With(kHasWorkload).Worker(0, Exited(0)).Plan().actions,
              ElementsAre(Action(DeleteWorkload{})));
}

TEST(DeletedRuleTest, ThePodGroupGoes) {
  const auto has_group = [](Observed& observed) { observed.pod_group.emplace(); };
  EXPECT_THAT(Deleted().With(has_group).Plan().actions, ElementsAre(Action(DeletePodGroup{})));
}

TEST(DeletedRuleTest, NothingIsDeletedIfTheChildrenAreToBeKept) {
  Seen seen = Deleted();
  seen.With(kHasWorkload).Worker(0, kReady).With([](Observed& observed) {
    observed.keeps_children = true;
  });
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
}

TEST(DeletedRuleTest, AJobThatAFinalizerHoldsStops) {
  World world(Job("j").Workers(2).Build());
  SetRunning(world);
  Delete(world, {"example.com/stay"});
  const std::size_t before = world.client.writes().size();
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.client.writes(), SizeIs(before + 2)) << "the two deletions";
  world.RestartOperator();
  world.Settle();
  EXPECT_THAT(world.client.writes(), SizeIs(before + 2));
}

TEST(DeletedRuleTest, AJobThatIsDeletedAtItsTtlStopsWhatCleanPodPolicyWouldHave) {
  World world(Job("j").Workers(2).TtlSecondsAfterFinished(0).Build());
  SetRunning(world);
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["metadata"]["finalizers"] = {"example.com/stay"};
  });
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  ASSERT_THAT(world.Pods(), SizeIs(1)) << "the other worker would never end";
  EXPECT_EQ(kube::Name(world.Pods().front()), "j-worker-0");
}

// Lets Kueue admit the queued job, and its two pods run.
void RunOnQuota(World& world) {
  world.client.Add(kFlavorKind, {{"metadata", {{"name", "gpu"}}}});
  world.Settle();
  world.client.Modify(kWorkloadKind, kWorkload, [](kube::Object& workload) {
    workload["status"] = testing::AdmittedStatus(2);
  });
  SetRunning(world);
}

TEST(DeletedRuleTest, AJobThatAFinalizerHoldsGivesItsQuotaBack) {
  World world(testing::Queued().Build(), testing::kKueue);
  RunOnQuota(world);
  ASSERT_THAT(world.Pods(), SizeIs(2));
  Delete(world, {"example.com/stay"});
  world.Settle();
  EXPECT_THAT(world.Pods(), IsEmpty());
  EXPECT_THAT(world.client.Objects(kWorkloadKind), IsEmpty());
}

TEST(DeletedRuleTest, AnOrphanedJobLeavesItsPods) {
  World world(Job("j").Workers(2).Build());
  SetRunning(world);
  Delete(world, {"orphan"});
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(2));
}

// As the garbage collector does it: an object keeps no owner.
void Orphan(World& world, const kube::Kind& kind) {
  for (const kube::Object& child : world.client.Objects(kind)) {
    world.client.Modify(kind, kube::KeyOf(child),
                        [](kube::Object& object) { object["metadata"].erase("ownerReferences"); });
  }
}

TEST(DeletedRuleTest, AnOrphanedJobThatAnotherFinalizerHoldsLeavesItsChildrenToo) {
  for (const bool saw_orphan : {true, false}) {
    World world(testing::Queued().Build(), testing::kKueue);
    RunOnQuota(world);
    ASSERT_THAT(world.Pods(), SizeIs(2));
    Delete(world, {"orphan", "example.com/stay"});
    if (saw_orphan) world.Settle();
    Orphan(world, kube::kPodKind);
    Orphan(world, kWorkloadKind);
    world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
      job["metadata"]["finalizers"] = {"example.com/stay"};
    });
    world.Sync(kTrainingJobKind, 1'000);
    EXPECT_TRUE(world.Reconcile().ok()) << "the cache has the pods as the job's";
    EXPECT_THAT(world.Pods(), SizeIs(2));
    world.Sync(kube::kPodKind, 1'000);
    EXPECT_TRUE(world.Reconcile().ok()) << "and then the Workload";
    world.Settle();
    EXPECT_THAT(world.Pods(), SizeIs(2));
    EXPECT_THAT(world.client.Objects(kWorkloadKind), SizeIs(1));
  }
}

}  // namespace
}  // namespace lockstep::controller
