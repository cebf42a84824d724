// Clocks that differ, jump or stand still, and times that others have written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "operator/controller/state/times.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using ::testing::IsEmpty;
using testing::Job;
using ::testing::SizeIs;
using testing::World;

TEST(ClocksTest, DeadlinesAreKeptByAnOperatorThatWasStartedAgain) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  world.Settle();
  world.clock.Advance(seconds(70));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(30));
  world.clock.Advance(seconds(30));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(50));
  EXPECT_EQ(FindCondition(world.Job()->status, kFailed)->reason, "DeadlineExceeded");
  world.clock.Advance(seconds(50));
  world.RestartOperator();
  world.Settle();
  EXPECT_FALSE(world.Job()) << "its time to live has passed";
}

TEST(ClocksTest, AClockThatIsSetBackDelaysNoRestart) {
  World world(Job("j").Workers(2).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-1", "Failed", 1);  // perhaps the consequence of a loss that shows later
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

TEST(ClocksTest, AClockThatIsSetBackDelaysNoSuccessorForLongerThanTheBackOff) {
  World world(Job("j").Workers(1).RestartScope(api::RestartScope::kPod).Build());
  const auto lose = [&world] {
    world.SetPod("j-worker-0", "Running");
    world.Settle();
    world.SetPod("j-worker-0", "Failed", 137);
    world.Settle();
  };
  world.Settle();
  lose();
  ASSERT_THAT(world.Pods(), SizeIs(1)) << "the first restart is immediate";
  lose();
  ASSERT_THAT(world.Pods(), IsEmpty());
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  const std::optional<Time> retry = world.Job()->status.next_retry_time;
  EXPECT_EQ(retry, WholeSeconds(world.clock.Now() + std::chrono::minutes(5)));
  world.clock.Advance(std::chrono::minutes(4));
  world.Settle();
  EXPECT_EQ(world.Job()->status.next_retry_time, retry) << "the wait does not begin anew";
  world.RestartOperator();
  world.clock.Advance(std::chrono::minutes(1));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
}

TEST(ClocksTest, AClockThatIsSetBackDelaysNoCleanUpOfAnEndedJob) {
  World world(Job("j").Workers(2).Training().TtlSecondsAfterFinished(50).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  EXPECT_EQ(world.Settle(), seconds(10)) << "the other one may be about to end";
  world.clock.Step(-std::chrono::minutes(50));
  EXPECT_EQ(world.Settle(), seconds(10));
  world.clock.Advance(seconds(10));
  world.Settle();
  EXPECT_THAT(world.Pods(), SizeIs(1));
  world.clock.Advance(seconds(40));
  world.Settle();
  EXPECT_EQ(world.Job(), std::nullopt);
}

TEST(ClocksTest, AnotherControllersTimesAreItsOwn) {
  api::TrainingJob job = Job("j").Workers(1).Build();
  job.spec.managed_by = "another";
  World world(job);
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& object) {
    object["status"]["nextRetryTime"] = "2096-01-01T00:00:00Z";
    object["status"]["completionTime"] = "2096-01-01T00:00:00Z";
  });
  const std::size_t writes = world.client.writes().size();
  world.Settle();
  EXPECT_EQ(world.client.writes().size(), writes);
}

TEST(ClocksTest, AClockThatIsSetBackDelaysNoEndOfAJobWithAnEvaluator) {
  api::TrainingSpec training = testing::MnistTraining();
  training.checkpoint.directory = "/checkpoints";
  World world(Job("j").Workers(1).Evaluator().Training(training).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::minutes(6));  // longer than the Evaluator's grace
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ClocksTest, SettingTheClockNeitherDelaysNorHastensAnEvaluatorsReplacement) {
  for (const auto step : {-std::chrono::minutes(50), std::chrono::minutes(50)}) {
    SCOPED_TRACE(step.count());
    World world(Job("j").Workers(1).Evaluator().Build());
    const auto lose = [&world] {
      world.SetPod("j-evaluator-0", "Running");
      world.Settle();
      world.SetPod("j-evaluator-0", "Failed", 137);
      world.Settle();
    };
    const auto has_failed = [&world] {
      const kube::Object evaluator = world.Pods().front();
      return kube::TextMember(kube::Member(evaluator, "status"), "phase") == "Failed";
    };
    world.Settle();
    world.SetPod("j-worker-0", "Running");
    lose();
    ASSERT_FALSE(has_failed()) << "the first successor comes at once";
    lose();
    world.clock.Step(step);
    world.clock.Advance(seconds(9));
    world.Settle();
    EXPECT_TRUE(has_failed());
    world.clock.Advance(seconds(1));
    world.Settle();
    ASSERT_FALSE(has_failed());
    lose();
    world.clock.Advance(seconds(19));
    world.Settle();
    EXPECT_TRUE(has_failed()) << "the row of losses goes on";
    world.clock.Advance(seconds(1));
    world.Settle();
    EXPECT_FALSE(has_failed());
  }
}

// By the operator that led before, for example, on a machine whose clock is ahead.
TEST(ClocksTest, AStartInTheFutureDelaysNoDeadline) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).Build());
  world.Settle();
  const std::optional<Time> start = world.Job()->status.start_time;
  world.clock.Step(-std::chrono::minutes(50));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(100));
  world.clock.Advance(seconds(40));
  EXPECT_EQ(world.Settle(), seconds(60)) << "the time does not begin anew";
  EXPECT_EQ(world.Job()->status.start_time, start);
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

TEST(ClocksTest, AStartInTheFutureDelaysNoPendingDeadline) {
  World world(Job("j").Workers(1).PendingDeadlineSeconds(100).Build());
  world.Settle();
  world.clock.Step(-std::chrono::minutes(50));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(100));
  world.clock.Advance(seconds(40));
  EXPECT_EQ(world.Settle(), seconds(60)) << "the time does not begin anew";
  world.clock.Advance(seconds(60));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

// An operator that starts on a machine before NTP has set its clock, for example.
TEST(ClocksTest, AClockThatIsBehindForAWhileMakesNoJobOlder) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  const auto be_behind_for_a_while = [&world] {
    world.clock.Step(-std::chrono::minutes(50));
    world.RestartOperator();
    world.Settle();
    world.clock.Step(std::chrono::minutes(50));
  };
  be_behind_for_a_while();
  EXPECT_EQ(world.Settle(), seconds(100));
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  ASSERT_EQ(world.Job()->status.state, "Succeeded");
  be_behind_for_a_while();
  EXPECT_EQ(world.Settle(), seconds(50));
  EXPECT_TRUE(world.Job());
}

void ExpectDeadlineIn100Seconds(World& world) {
  world.clock.Advance(seconds(99));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

TEST(ClocksTest, AClockThatWasBehindWhenAJobBeganMakesItNoOlder) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).Build());
  world.clock.Step(-std::chrono::minutes(50));
  world.Settle();
  world.clock.Step(std::chrono::minutes(50));
  ExpectDeadlineIn100Seconds(world);
}

// However late this process looks at the job again.
TEST(ClocksTest, AJobHasBegunWhenThatWasWrittenNotWhenItWasSeenAgain) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).Build());
  while (!world.Job()->status.start_time) {
    world.SyncAll();
    EXPECT_TRUE(world.Reconcile().ok());
  }
  ExpectDeadlineIn100Seconds(world);
}

TEST(ClocksTest, AClockThatWasBehindWhenAJobEndedMakesItNoOlder) {
  World world(Job("j").Workers(1).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.clock.Step(-std::chrono::minutes(50));
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  world.clock.Step(std::chrono::minutes(50));
  world.clock.Advance(seconds(49));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_FALSE(world.Job());
}

// A watch may be silent for minutes, or the operator's thread late.
TEST(ClocksTest, AJobWhoseTimeToLiveWasJustTakenAwayIsKept) {
  World world(Job("j").Workers(1).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  world.client.Modify(kTrainingJobKind, world.key, [](kube::Object& job) {
    job["spec"]["runPolicy"].erase("ttlSecondsAfterFinished");
  });
  world.clock.Advance(seconds(50));
  EXPECT_FALSE(world.Reconcile().ok()) << "it is tried again: the cache has not seen the change";
  world.Settle();
  EXPECT_TRUE(world.Job());
}

TEST(ClocksTest, ATrainersClockThatIsAheadDelaysNoEndOfAJobWithAnEvaluator) {
  api::TrainingSpec training = testing::MnistTraining();
  training.checkpoint.directory = "/checkpoints";
  World world(Job("j").Workers(1).Evaluator().Training(training).Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.progress.answer.emplace().step = 1;
  world.progress.answer->update_time = world.clock.Now() + std::chrono::hours(24);
  world.Settle();
  world.clock.Advance(seconds(10));
  world.Settle();
  ASSERT_TRUE(world.Job()->status.progress);
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::minutes(6));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

TEST(ClocksTest, AClockThatIsSetForwardShortensNoGracePeriod) {
  World world(Job("j").Workers(2).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
  ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", "j-worker-1"}, {}).ok());
  world.Settle();
  world.clock.Step(std::chrono::hours(1));
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 0);
  world.clock.Advance(std::chrono::minutes(2));
  world.Settle();
  EXPECT_EQ(world.client.Count("force-delete", "Pod"), 1);
}

TEST(ClocksTest, AClockThatIsSetForwardShortensNoWaitForTheFirstStart) {
  World world(Job("j").Workers(1).PendingDeadlineSeconds(60).Build());
  world.Settle();
  world.clock.Step(std::chrono::hours(1));
  world.clock.Advance(seconds(59));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Pending");
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Failed");
}

TEST(ClocksTest, AClockThatIsSetForwardTakesNoTimeFromAnEvaluator) {
  World world(Job("j").Workers(1).Evaluator().Build());
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-evaluator-0"}) world.SetPod(pod, "Running");
  world.Settle();
  world.SetPod("j-worker-0", "Succeeded");
  world.Settle();
  world.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  world.clock.Step(std::chrono::hours(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Running");
  world.clock.Advance(std::chrono::minutes(5));
  world.Settle();
  EXPECT_EQ(world.Job()->status.state, "Succeeded");
}

// The second loss would be an incident of its own, and its successor would have to wait.
TEST(ClocksTest, AClockThatIsSetForwardSplitsNoIncident) {
  World world(Job("j").Workers(3).RestartScope(api::RestartScope::kPod).Build());
  world.client.SetScheduler([](const kube::Object& /*pod*/) { return "node"; });
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1", "j-worker-2"}) world.SetPod(pod, "Running");
  world.Settle();
  for (const char* pod : {"j-worker-1", "j-worker-2"}) {
    ASSERT_TRUE(world.client.Delete(kube::kPodKind, {"default", pod}, {}).ok());
    world.Settle();
    world.clock.Step(std::chrono::minutes(1));
  }
  EXPECT_EQ(world.Job()->status.restarts, (api::RestartCounts{0, 2, 1}));
}

TEST(ClocksTest, TheDeadlineAndTheTimeToLiveSurviveARestartOfTheOperator) {
  World world(Job("j").Workers(1).ActiveDeadlineSeconds(100).TtlSecondsAfterFinished(50).Build());
  world.Settle();
  world.SetPod("j-worker-0", "Running");
  EXPECT_EQ(world.Settle(), seconds(100));
  world.clock.Advance(seconds(40));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(60));
  world.clock.Advance(seconds(60));
  EXPECT_EQ(world.Settle(), seconds(50));
  EXPECT_EQ(world.Job()->status.state, "Failed");
  world.clock.Advance(seconds(20));
  world.RestartOperator();
  EXPECT_EQ(world.Settle(), seconds(30));
  world.clock.Advance(seconds(30));
  world.Settle();
  EXPECT_EQ(world.Job(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::controller
