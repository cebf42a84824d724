#include "operator/controller/rules/parts/pending_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Role;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using testing::kPending;
using testing::kReady;
using testing::PodState;
using testing::Seen;

PodState Waiting(const std::string& reason, const std::string& message) {
  return [=](ObservedPod& pod) {
    pod.waiting_reason = reason;
    pod.waiting_message = message;
  };
}
PodState Blocked(const Blocker& blocker) {
  return [=](ObservedPod& pod) {
    pod.waiting_reason = "PodInitializing";
    pod.blockers = {blocker};
  };
}
PodState Unschedulable(const std::string& message) {
  return [=](ObservedPod& pod) { pod.unschedulable = message; };
}
Seen Two() {
  return Seen(Job("j").Workers(2)).Service();
}
std::vector<std::string> Reasons(const Plan& plan) {
  std::vector<std::string> reasons;
  for (const PlannedEvent& event : plan.events) reasons.push_back(event.reason);
  return reasons;
}

TEST(PendingReasonTest, SaysWhatKeepsPodsFromBeingUp) {
  struct Case {
    const char* name;
    Seen seen;
    std::optional<PendingReason> expected;
  };
  const Case cases[] = {
      {"only time", Two().Worker(0, kPending), std::nullopt},
      {"an image", Two().Worker(0, Waiting("ErrImagePull", "manifest unknown")),
       PendingReason{"PodWaiting", "j-worker-0 is waiting: ImagePullBackOff: manifest unknown"}},
      {"a ConfigMap", Two().Worker(0, Waiting("CreateContainerConfigError", "")),
       PendingReason{"PodWaiting", "j-worker-0 is waiting: CreateContainerConfigError"}},
      {"just starting", Two().Worker(0, Waiting("ContainerCreating", "")), std::nullopt},
      {"a sidecar's image",
       Two().Worker(0, Blocked({"sidecar proxy", 0, "ErrImagePull", "manifest unknown"})),
       PendingReason{"PodWaiting",
                     "sidecar proxy of j-worker-0 is waiting: ImagePullBackOff: manifest unknown"}},
      {"an init container", Two().Worker(1, Blocked({"init container fetch", 3, "Error", "no"})),
       PendingReason{"InitContainerFailed",
                     "init container fetch of j-worker-1 exited with code 3: no"}},
      {"its memory", Two().Worker(1, Blocked({"init container fetch", 137, "OOMKilled", ""})),
       PendingReason{"InitContainerFailed",
                     "init container fetch of j-worker-1 exited with code 137 (OOMKilled)"}},
      {"no node", Two().Worker(1, Unschedulable("0/3 nodes are available")),
       PendingReason{"Unschedulable", "no node takes j-worker-1: 0/3 nodes are available"}},
      {"Kueue",
       Two().Worker(0, kReady).Worker(1, Waiting("SchedulingGated", "kueue.x-k8s.io/admission")),
       PendingReason{"SchedulingGated",
                     "j-worker-1 waits until somebody removes its scheduling gates: "
                     "kueue.x-k8s.io/admission",
                     false}},
      {"a fault beside a gate",
       Two()
           .Worker(0, Waiting("SchedulingGated", "kueue.x-k8s.io/admission"))
           .Worker(1, Unschedulable("0/3 nodes")),
       PendingReason{"Unschedulable", "no node takes j-worker-1: 0/3 nodes"}},
      {"refused", Two().With([](Observed& o) { o.create_fault = CreateFault{"over quota"}; }),
       PendingReason{"CreateFailed", "over quota"}},
      {"a webhook", Two().With([](Observed& o) { o.action_fault = {"DeleteFailed", "no"}; }),
       PendingReason{"DeleteFailed", "no"}},
      {"a name", Two().With([](Observed& o) { o.name_conflicts = {"j-worker-1"}; }),
       PendingReason{"NameConflict",
                     "an object named j-worker-1 exists and belongs to another owner"}},
      {"an old member", Two().Worker(0, [](ObservedPod& pod) { pod.attempt = -1; }),
       PendingReason{"OldPodsTerminating", "j-worker-0 of the previous attempt has not ended yet",
                     false}},
      {"back-off",
       Two().With([](Observed& o) { o.job.status.next_retry_time = o.now + seconds(20); }),
       PendingReason{"BackOff", "the next restart is due at 2023-11-14T22:13:40Z", false}},
  };
  for (Case c : cases) EXPECT_EQ(FindPendingReason(c.seen.Build()), c.expected) << c.name;
}

TEST(PendingReasonTest, AnImageThatCannotBePulledIsReported) {
  Seen seen = Two();
  seen.Worker(0, kReady).Worker(1, Waiting("ErrImagePull", "manifest unknown"));
  EXPECT_THAT(Reasons(seen.Plan()), ElementsAre("PodWaiting"));
  EXPECT_EQ(FindCondition(seen.Plan().status, kRunning)->reason, "PodWaiting");
  seen.Write();
  const api::TrainingJobStatus told = seen.Build().job.status;
  seen.With([](Observed& observed) {
    Waiting("ImagePullBackOff", "Back-off pulling image")(observed.pods[1]);
  });
  EXPECT_EQ(seen.Plan().status, told) << "the kubelet's next word for the same thing is not news";
  EXPECT_THAT(seen.Plan().events, IsEmpty());
}

TEST(PendingReasonTest, TheNextTryOfAnInitContainerIsNewsOnlyIfItEndsOtherwise) {
  Seen seen = Two();
  seen.Worker(0, kReady).Worker(1, Blocked({"init container fetch", 1, "Error", "at 12:00"}));
  EXPECT_THAT(Reasons(seen.Plan()), ElementsAre("InitContainerFailed"));
  seen.Write();
  const api::TrainingJobStatus told = seen.Build().job.status;
  seen.With([](Observed& observed) { observed.pods[1].blockers[0].message = "at 12:05"; });
  EXPECT_EQ(seen.Plan().status, told);
  seen.With([](Observed& observed) { observed.pods[1].blockers[0].exit_code = 13; });
  EXPECT_EQ(FindPendingReason(seen.Build()),
            (PendingReason{"InitContainerFailed",
                           "init container fetch of j-worker-1 exited with code 13: at 12:05"}));
  seen.With([](Observed& observed) { observed.pods[1].phase = PodPhase::kFailed; });
  EXPECT_EQ(FindPendingReason(seen.Build()), std::nullopt) << "its replica starts again";
}

TEST(PendingReasonTest, AReplacedPodsReasonIsReportedThoughTheJobStaysRunning) {
  Seen seen(Job("j").Workers(2).RestartScope(api::RestartScope::kInPlace));
  seen.Running().Worker(0, kReady).Worker(1, Waiting("ImagePullBackOff", "gone"));
  const Plan plan = seen.Plan();
  EXPECT_TRUE(IsTrue(plan.status, kRunning));
  EXPECT_EQ(FindCondition(plan.status, kRunning)->message,
            "j-worker-1 is waiting: ImagePullBackOff: gone");
  EXPECT_THAT(Reasons(plan), ElementsAre("PodWaiting"));
  seen.Write().With([](Observed& observed) { observed.pods[1].waiting_reason.clear(); });
  EXPECT_EQ(FindCondition(seen.Plan().status, kRunning)->reason, "PodsNotReady");
  EXPECT_THAT(Reasons(seen.Write().Plan()), IsEmpty());
  seen.With([](Observed& observed) { Waiting("ImagePullBackOff", "gone")(observed.pods[1]); });
  EXPECT_THAT(Reasons(seen.Plan()), ElementsAre("PodWaiting")) << "once more";
  seen.With([](Observed& observed) {
    kReady(observed.pods[1]);
    observed.pods[1].waiting_reason.clear();
  });
  EXPECT_EQ(FindCondition(seen.Plan().status, kRunning)->reason, "AllReplicasReady");
  EXPECT_THAT(Reasons(seen.Plan()), IsEmpty());
}

TEST(PendingReasonTest, ARoleWithoutReplicasIsInert) {
  Seen seen(Job("j").Chief().Workers(0).Evaluator(0));
  EXPECT_THAT(seen.Service().Plan().actions, ElementsAre(CreatePod{Role::kChief, 0, 0}));
  seen.Pod(Role::kChief, 0, kReady).Write();
  EXPECT_EQ(seen.Build().job.status.state, "Running");
  EXPECT_THAT(seen.Plan().actions, IsEmpty());
  EXPECT_EQ(seen.Plan().status, seen.Build().job.status);
}

}  // namespace
}  // namespace lockstep::controller
