#include "operator/controller/rules/parts/lost_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/names.h"
#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::RestartScope;
using api::Role;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using testing::kBeingDeleted;
using testing::kReady;
using testing::PodState;
using testing::Seen;

constexpr Time kNow{seconds(1'700'000'000)};  // of Seen

// A grace period of 30 s that began `ago`.
PodState DeletedSince(seconds ago, std::int64_t grace = 30) {
  return [=](ObservedPod& pod) {
    kBeingDeleted(pod);
    pod.deletion = Deletion{kNow - ago + seconds(grace), grace};
    pod.deleting_since = kNow - ago;
  };
}
PodState SilentSince(seconds ago) {
  return [=](ObservedPod& pod) {
    kReady(pod);
    pod.ready = false;
    pod.node = "node-7";
    pod.node_silent_since = kNow - ago;
  };
}
testing::JobBuilder InPlace() {
  return Job("j").Workers(2).RestartScope(RestartScope::kInPlace);
}

TEST(LostPodsTest, APodThatNobodyConfirmsGoneIsDeletedByForceOnceItsTimeIsUp) {
  struct Case {
    const char* name;
    seconds ago;
    std::int64_t grace;
    bool forced;
    std::optional<Duration> requeue;
  };
  const Case cases[] = {
      {"within its grace", seconds(10), 30, false, seconds(80)},
      {"a little late", seconds(60), 30, false, seconds(30)},
      {"too late", seconds(90), 30, true, std::nullopt},
      {"a long grace is respected", seconds(90), 600, false, seconds(570)},
      {"forced already", seconds(500), 0, false, std::nullopt},
  };
  for (const Case& c : cases) {
    Seen seen(InPlace());
    seen.Running().Worker(0, kReady).Worker(1, DeletedSince(c.ago, c.grace)).Write();
    const Plan plan = seen.Plan();
    if (c.forced) {
      EXPECT_THAT(plan.actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid", true}))
          << c.name;
    } else {
      EXPECT_THAT(plan.actions, IsEmpty()) << c.name;
    }
    EXPECT_EQ(plan.requeue_after, c.requeue) << c.name;
  }
}

TEST(LostPodsTest, AGracePeriodOfDecadesIsRespected) {
  const auto read = ObservePod(
      {{"metadata",
        {{"labels",
          {{api::kLabelRole, "worker"}, {api::kLabelReplicaIndex, "1"}, {api::kLabelAttempt, "0"}}},
         {"deletionTimestamp", "2091-12-02T01:27:28Z"},
         {"deletionGracePeriodSeconds", std::int64_t{1} << 31}}}});
  Seen seen(InPlace());
  seen.Running().Worker(0, kReady).Worker(1, [&read](ObservedPod& pod) {
    kBeingDeleted(pod);
    pod.deletion = read->deletion;
    pod.deleting_since = kNow;
  });
  seen.Write();
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
}

TEST(LostPodsTest, ASilentNodesPodIsReplacedForFree) {
  Seen seen(InPlace());
  seen.Running().Worker(0, kReady).Worker(1, SilentSince(seconds(119)));
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(1)));
  seen.Later(seconds(1)).Write();
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{0, 1, 1}));
  EXPECT_EQ(seen.Build().job.status.failure->reason, "NodeLost");
  EXPECT_EQ(seen.Build().job.status.failure->node, "node-7");
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid", true}));
  EXPECT_EQ(seen.Write().Build().job.status.restarts.disruption, 1) << "charged once";
}

TEST(LostPodsTest, OnlyOurOwnClockSaysHowLongADeletionTakes) {
  Seen seen(InPlace());
  seen.Running().Worker(0, kReady).Worker(1, [](ObservedPod& pod) {
    kBeingDeleted(pod);
    pod.deletion = Deletion{kNow - std::chrono::hours(5), 30};  // as a clock that is behind says
    pod.deleting_since = kNow;
  });
  seen.Write();
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(90)));
}

TEST(LostPodsTest, AMemberThatItsGroupMissesOnASilentNodeIsReplacedAtOnceForFree) {
  const auto misses = [](const char* member) {
    return [member](Observed& observed) { observed.group.missing = {member}; };
  };
  Seen seen(Job("j").Workers(3).Training());
  seen.Running().Worker(0, kReady).Worker(1, SilentSince(seconds(0))).Worker(2, kReady);
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().requeue_after, Duration(seconds(2))) << "its group may say so soon";
  EXPECT_THAT(Seen(seen).With(misses("worker-2")).Plan().status.restarts, api::RestartCounts())
      << "missed, but its node is well";
  seen.With(misses("worker-1")).Write();
  EXPECT_EQ(seen.Build().job.status.restarts, (api::RestartCounts{0, 1, 1}));
  EXPECT_EQ(seen.Build().job.status.failure->index, 1);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid", true}));
  seen.NoPods().Worker(0, kReady).Worker(2, kReady);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(CreatePod{Role::kWorker, 1, 0}));
}

TEST(LostPodsTest, ALeaderThatHasFallenSilentWithItsNodeIsReplacedAtOnce) {
  Seen seen(Job("j").Workers(2).Training());
  seen.Running().Worker(0, SilentSince(seconds(0))).Worker(1, kReady);
  seen.With([](Observed& observed) { observed.group.leader_is_silent = true; }).Write();
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid", true}));
  Seen other(Job("j").Workers(2).Training());
  other.Running().Worker(0, kReady).Worker(1, SilentSince(seconds(0)));
  other.With([](Observed& observed) { observed.group.leader_is_silent = true; });
  EXPECT_THAT(other.Plan().actions, IsEmpty()) << "it says nothing of the others";
}

TEST(LostPodsTest, ADeletionOnASilentNodeGetsItsGracePeriodOnly) {
  Seen seen(InPlace());
  seen.Running().Worker(0, kReady).Worker(1, DeletedSince(seconds(30)));
  seen.With([](Observed& observed) { observed.pods[1].node_silent_since = kNow; }).Write();
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid", true}));
}

TEST(LostPodsTest, AGangDoesNotWaitForAMemberOfAnEarlierAttemptForEver) {
  Seen seen(Job("j").Workers(2).RestartScope(RestartScope::kGang));
  seen.Running().Worker(0, kReady).Worker(1, DeletedSince(seconds(90))).Write();
  EXPECT_EQ(seen.Build().job.status.attempt, 1);
  EXPECT_THAT(seen.Plan().actions, ElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid", false},
                                               DeletePod{"j-worker-1", "j-worker-1-uid", true}));
}

TEST(LostPodsTest, EndedAndSuspendedJobsGetRidOfThemToo) {
  Seen ended(InPlace());
  ended.Running().Worker(0, testing::Exited(0)).Worker(1, DeletedSince(seconds(90))).Write();
  ASSERT_TRUE(IsTrue(ended.Build().job.status, kSucceeded));
  EXPECT_THAT(ended.Plan().actions, ElementsAre(DeletePod{"j-worker-1", "j-worker-1-uid", true}));
  Seen suspended(InPlace().Suspended());
  suspended.Worker(0, DeletedSince(seconds(90))).Write();
  EXPECT_THAT(suspended.Plan().actions,
              ElementsAre(DeletePod{"j-worker-0", "j-worker-0-uid", true}));
}

}  // namespace
}  // namespace lockstep::controller
