// Jobs whose step stays the same, by the trainer's answers and by the reports of other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rfc3339.h"
#include "operator/controller/state/times.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using std::chrono::seconds;
using testing::Job;
using testing::World;

// Both replicas run, and the leading one tells of the same step for ever.
void GetStuck(World& world) {
  world.progress.group.in_step_for = std::chrono::hours(1);
  world.Settle();
  for (const char* pod : {"j-worker-0", "j-worker-1"}) world.SetPod(pod, "Running");
  world.Settle();
}

// The job has 60 seconds from now on, not one less or more.
void ExpectARestartInAMinute(World& world) {
  const int attempt = world.Job()->status.attempt;
  world.clock.Advance(seconds(59));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, attempt) << "the time before does not count";
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, attempt + 1);
}

// The pod goes on with a second container.
void RestartContainer(World& world, const std::string& name) {
  world.client.Modify(kube::kPodKind, {"default", name}, [](kube::Object& pod) {
    pod["status"]["phase"] = "Running";
    pod["status"]["containerStatuses"] = {
        {{"name", pod.at("spec").at("containers").at(0).at("name")},
         {"restartCount", 1},
         {"state", {{"running", kube::Object::object()}}}}};
  });
}

TEST(StalledJobsTest, AJobWithoutProgressIsRestartedOncePerDeadline) {
  World world(Job("j").Workers(2).Training().ProgressDeadlineSeconds(60).Build());
  GetStuck(world);
  world.clock.Step(std::chrono::hours(1));  // the wall clock alone
  world.clock.Advance(seconds(59));
  EXPECT_EQ(world.Settle(), seconds(1));
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
  EXPECT_EQ(world.Job()->status.failure->reason, "ProgressDeadlineExceeded");
  for (const kube::Object& pod : world.Pods()) {
    if (kube::IsBeingDeleted(pod)) world.client.Remove(kube::kPodKind, kube::KeyOf(pod));
  }
  GetStuck(world);
  ExpectARestartInAMinute(world);
  EXPECT_EQ(world.Job()->status.attempt, 2);
  EXPECT_EQ(world.Job()->status.restarts.application, 2);
  const std::vector<std::string> events = world.EventReasons();
  EXPECT_EQ(std::ranges::count(events, "ProgressDeadlineExceeded"), 2);
}

TEST(StalledJobsTest, AnOperatorThatHasJustStartedCountsTheTimeWithoutProgressAnew) {
  World world(Job("j").Workers(2).Training().ProgressDeadlineSeconds(60).Build());
  GetStuck(world);
  world.clock.Advance(seconds(59));
  world.RestartOperator();
  world.Settle();
  ExpectARestartInAMinute(world);
}

TEST(StalledJobsTest, AContainerThatTheKubeletHasRestartedHasItsTimeAnew) {
  World world(Job("j")
                  .Workers(2)
                  .Training()
                  .RestartScope(api::RestartScope::kPod)
                  .ProgressDeadlineSeconds(60)
                  .Build());
  GetStuck(world);
  world.clock.Advance(seconds(59));
  RestartContainer(world, "j-worker-1");
  world.Settle();
  ExpectARestartInAMinute(world);
  EXPECT_EQ(world.Job()->status.restarts.application, 2) << "the kubelet's is charged, too";
}

// An Evaluator that fails again and again may hold up nobody.
TEST(StalledJobsTest, AnEvaluatorThatTheKubeletHasRestartedChangesNoTime) {
  api::TrainingSpec training = testing::MnistTraining();
  training.checkpoint.directory = "/checkpoints";
  World world(Job("j")
                  .Workers(2)
                  .Evaluator()
                  .Training(training)
                  .RestartScope(api::RestartScope::kPod)
                  .ProgressDeadlineSeconds(60)
                  .Build());
  GetStuck(world);
  world.clock.Advance(seconds(59));
  RestartContainer(world, "j-evaluator-0");
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 0);
  world.clock.Advance(seconds(1));
  world.Settle();
  EXPECT_EQ(world.Job()->status.attempt, 1);
}

// A job with an image of the user's own, whose program reports a step now and then.
class ReportingTest : public ::testing::Test {
 protected:
  void Start() {
    world_.reports.emplace();
    world_.RestartOperator();
    world_.Settle();
    world_.SetPod("j-worker-0", "Running");
    world_.Settle();
  }
  void Report(int step) {
    const std::string uid = world_.Job()->metadata.uid;
    world_.reports->Take(
        uid, Attempt(),
        {.loss = 0.5, .step = step, .total_steps = 100, .digest = static_cast<std::size_t>(step)},
        std::nullopt, world_.clock.Now(), world_.clock.SteadyNow());
    world_.Settle();
  }
  int Attempt() { return world_.Job()->status.attempt; }

  void Restart(const Settings& settings) {
    world_.reports.emplace();
    world_.RestartOperator(settings);
    EXPECT_TRUE(world_.tokens().Load().ok());
    world_.Settle();
  }
  void Restart() { Restart(kReporting); }
  int AttemptAfter(Duration time) {
    world_.clock.Advance(time);
    world_.Settle();
    return Attempt();
  }

  const Settings kReporting{.job_tokens = true, .progress_url = "http://op", .parallel_calls = 1};
  World world_{
      Job("j")
          .Workers(1)
          .ProgressDeadlineSeconds(60)
          .With([](api::TrainingJob& job) { job.spec.job_token = api::TokenMount::kMounted; })
          .Build(),
      kReporting};
};

TEST_F(ReportingTest, ItsProgressIsWrittenAtThePaceOfOthers) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  const api::Progress progress = *world_.Job()->status.progress;
  EXPECT_EQ(progress.step, 1);
  EXPECT_EQ(progress.loss, 0.5);
  EXPECT_EQ(progress.update_time, world_.clock.Now());
  const std::size_t writes = world_.client.writes().size();
  for (int step = 2; step < 10; ++step) {
    world_.clock.Advance(seconds(1));
    Report(step);
  }
  EXPECT_EQ(world_.client.writes().size(), writes);
  world_.clock.Advance(seconds(2));
  world_.Settle();
  EXPECT_EQ(world_.client.writes().size(), writes + 1);
  EXPECT_EQ(world_.Job()->status.progress->step, 9);
}

TEST_F(ReportingTest, AProgramThatReportsNothingMoreIsRestarted) {
  Start();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0) << "one that has never reported is not judged";
  Report(1);
  world_.clock.Advance(seconds(59));
  Report(2);
  world_.clock.Advance(seconds(59));
  Report(2);
  EXPECT_EQ(Attempt(), 0);
  world_.clock.Advance(seconds(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1);
  EXPECT_EQ(world_.Job()->status.failure->reason, "ProgressDeadlineExceeded");
  for (const kube::Object& pod : world_.Pods()) {
    if (kube::IsBeingDeleted(pod)) world_.client.Remove(kube::kPodKind, kube::KeyOf(pod));
  }
  world_.Settle();
  world_.SetPod("j-worker-0", "Running");
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1) << "the next attempt has not reported yet";
  Restart();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1) << "what the status has is the attempt's before";
}

TEST_F(ReportingTest, AnotherOperatorGivesAProgramThatHasReportedItsTimeAnew) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  world_.clock.Advance(seconds(59));
  Restart();
  world_.clock.Advance(seconds(59));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0);
  world_.clock.Advance(seconds(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 1);
}

// With restartScope Pod: neither the attempt nor the pod is another one.
TEST_F(ReportingTest, AContainerThatStartsAgainMayTakeItsTime) {
  const auto restart_container = [this](int count) {
    world_.client.Modify(
        kube::kPodKind, {"default", "j-worker-0"}, [this, count](kube::Object& pod) {
          pod["status"]["containerStatuses"] = {
              {{"name", pod.at("spec").at("containers").at(0).at("name")},
               {"restartCount", count},
               {"state",
                {{"running", {{"startedAt", FormatRfc3339(WholeSeconds(world_.clock.Now()))}}}}},
               {"lastState", {{"terminated", {{"exitCode", 1}}}}}}};
        });
    world_.Settle();
  };
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  restart_container(1);
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  Report(1);
  Restart();
  restart_container(2);
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0) << "nor does what the status has count";
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0) << "nor for an operator that did not see it";
  Report(1);
  EXPECT_EQ(AttemptAfter(seconds(60)), 1);
}

// One drain takes the leading pod and the operator.
TEST_F(ReportingTest, APodThatIsReplacedMayTakeItsTime) {
  world_.client.Modify(kTrainingJobKind, world_.key,
                       [](kube::Object& job) { job["spec"]["restartScope"] = "Pod"; });
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  world_.client.Remove(kube::kPodKind, {"default", "j-worker-0"});
  Restart();
  world_.Settle();
  world_.SetPod("j-worker-0", "Running");
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
}

// An operator that has another key, or is told another URL, leaves pods with the old ones.
TEST_F(ReportingTest, NothingIsExpectedFromAProgramThatReportsElsewhere) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  Settings elsewhere = kReporting;
  elsewhere.progress_url = "http://op2";
  Restart(elsewhere);
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  ASSERT_TRUE(world_.client.Delete(kube::kSecretKind, testing::kOperatorKey, {}).ok());
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  Report(2);
  EXPECT_EQ(AttemptAfter(seconds(60)), 1) << "it has reached this one";
}

TEST_F(ReportingTest, WithoutItsKeyAnOperatorHearsNothing) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  world_.reports.emplace();
  world_.RestartOperator();
  EXPECT_EQ(world_.Settle(), seconds(60)) << "the job is looked at again";
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  ASSERT_TRUE(world_.tokens().Load().ok());
  EXPECT_EQ(world_.Settle(), seconds(60));
  EXPECT_EQ(AttemptAfter(seconds(59)), 0);
  EXPECT_EQ(AttemptAfter(seconds(1)), 1);
}

TEST_F(ReportingTest, ASilenceThatTheServerMayHaveCausedTellsNothing) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  for (int i = 0; i < 2; ++i) {
    world_.clock.Advance(seconds(59));
    world_.reports->NoteLoss(world_.clock.SteadyNow());
    EXPECT_EQ(AttemptAfter(seconds(59)), 0) << i;
    if (i == 0) Restart();
  }
  EXPECT_EQ(AttemptAfter(seconds(1)), 1);
}

// A namespace that cannot be listed keeps the operator from being ready for as long as it lasts.
TEST_F(ReportingTest, AServiceThatSendsNothingToAnOperatorThatIsNotReadyHasNoProgramRestarted) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  Restart();
  world_.reports->NoteReadiness(false, world_.clock.SteadyNow());
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
  EXPECT_EQ(world_.Settle(), seconds(60)) << "the job is looked at again";
  world_.reports->NoteReadiness(true, world_.clock.SteadyNow());
  EXPECT_EQ(AttemptAfter(seconds(59)), 0);
  EXPECT_EQ(AttemptAfter(seconds(1)), 1);
}

TEST_F(ReportingTest, AProgramOfALaterAttemptIsJudgedByItsOnlyReportToThisOperator) {
  Start();
  Report(1);
  world_.clock.Advance(seconds(60));
  world_.Settle();
  for (const kube::Object& pod : world_.Pods()) {
    if (kube::IsBeingDeleted(pod)) world_.client.Remove(kube::kPodKind, kube::KeyOf(pod));
  }
  Start();
  EXPECT_EQ(Attempt(), 1);
  Report(1);
  world_.clock.Advance(seconds(60));
  world_.Settle();
  EXPECT_EQ(Attempt(), 2);
}

TEST_F(ReportingTest, AProgramThatIsDoneMayTakeItsTimeToEnd) {
  Start();
  Report(1);
  Report(100);
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0);
  Restart();
  world_.clock.Advance(std::chrono::hours(1));
  world_.Settle();
  EXPECT_EQ(Attempt(), 0) << "the status tells the next process";
  world_.SetPod("j-worker-0", "Succeeded");
  world_.Settle();
  EXPECT_EQ(world_.Job()->status.progress->step, 100);
}

// A program sends its last report once. The operator may end before it writes other progress.
TEST_F(ReportingTest, ThatAProgramIsDoneIsWrittenAtOnce) {
  Start();
  world_.clock.Advance(seconds(10));
  Report(1);
  Report(99);
  EXPECT_EQ(world_.Job()->status.progress->step, 1);
  Report(100);
  EXPECT_EQ(world_.Job()->status.progress->step, 100);
  Restart();
  EXPECT_EQ(AttemptAfter(std::chrono::hours(1)), 0);
}

}  // namespace
}  // namespace lockstep::controller
