#include "trainer/strategy/parameter_server/task_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/fake_clock.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Session = TaskCoordinator::Session;

proto::Introduction Worker(int index, std::int64_t process_number = 1) {
  proto::Introduction who;
  who.set_role("worker");
  who.set_index(index);
  who.set_process_number(process_number);
  who.set_fingerprint("trainSamples=8;classes=2;");
  return who;
}

// -1: the answer is no task.
std::int64_t StepOf(const proto::TaskReply& reply) {
  return reply.has_task() ? reply.task().step() : -1;
}

// Worker 0 is the leading process. Next never blocks.
class TaskCoordinatorTest : public ::testing::Test {
 protected:
  static TaskCoordinatorOptions Options() {
    return {.leases = {.max_staleness = 0, .patience = std::chrono::minutes(1)},
            .patience = Duration::zero()};
  }
  Session Enter(int index, std::int64_t process_number = 1) {
    const auto session = tasks_.Enter(Worker(index, process_number));
    EXPECT_TRUE(session.ok()) << session.status();
    return session.value_or(0);
  }
  // The leading process loads the values; steps [0, until) are to be done.
  std::uint64_t Load(Session owner, std::int64_t until = 100) {
    proto::Next next;
    next.mutable_owner();
    const std::uint64_t fence = tasks_.Next(owner, next).fence();
    next.mutable_owner()->set_loaded(fence);
    next.mutable_owner()->set_until(until);
    next.mutable_owner()->set_run_state("state");
    tasks_.Next(owner, next);
    return fence;
  }
  proto::TaskReply Ask(Session session, std::uint64_t fence, std::int64_t done = -1) {
    proto::Next next;
    next.set_fence(fence);
    next.set_wants_task(true);
    if (done >= 0) next.add_done()->set_step(done);
    return tasks_.Next(session, next);
  }

  testing::FakeClock clock_;
  TaskCoordinator tasks_{Options(), clock_};
};

TEST_F(TaskCoordinatorTest, WorkersWaitUntilTheLeadingProcessHasLoadedTheValues) {
  const Session other = Enter(1);
  EXPECT_EQ(Ask(other, 0).wait().missing(), "worker 0");
  const Session owner = Enter(0);
  EXPECT_EQ(Ask(other, 0).wait().missing(), "");
  EXPECT_TRUE(Ask(other, 0).wait().is_halted());
  proto::Next next;
  next.mutable_owner();
  const proto::TaskReply order = tasks_.Next(owner, next);
  EXPECT_TRUE(order.has_load());
  EXPECT_NE(order.fence(), 0u);
  EXPECT_TRUE(Ask(other, 0).has_wait());
  const std::uint64_t fence = Load(owner);
  const proto::TaskReply reply = Ask(other, 0);
  EXPECT_TRUE(reply.has_task());
  EXPECT_EQ(StepOf(reply), 0);
  EXPECT_EQ(reply.fence(), fence);
}

// Counts how often somebody looks for a task.
class LooksClock final : public Clock {
 public:
  Time Now() const override { return {}; }
  SteadyTime SteadyNow() const override {
    ++looks;
    return SteadyTime();
  }
  mutable std::atomic<int> looks{0};
};

// Or the questions of many that wait keep server 0 from its work.
TEST_F(TaskCoordinatorTest, AQuestionAloneWakesNobodyWhoWaits) {
  const LooksClock clock;
  TaskCoordinatorOptions options = Options();
  options.patience = std::chrono::minutes(1);
  TaskCoordinator tasks(options, clock);
  const Session owner = *tasks.Enter(Worker(0));
  const Session waiting = *tasks.Enter(Worker(1)), asking = *tasks.Enter(Worker(2));
  proto::Next report;
  report.mutable_owner();
  const std::uint64_t fence = tasks.Next(owner, report).fence();
  report.mutable_owner()->set_loaded(fence);  // and no step is to be done yet
  tasks.Next(owner, report);
  std::jthread waiter([&] {
    proto::Next question;
    question.set_fence(fence);
    question.set_wants_task(true);
    EXPECT_TRUE(tasks.Next(waiting, question).has_finished());
  });
  EXPECT_TRUE(lockstep::testing::Eventually([&] { return clock.looks == 1; }));
  proto::Next question;
  question.set_fence(fence);
  for (int i = 0; i < 1000; ++i) {
    tasks.Next(asking, question);
    std::this_thread::yield();
  }
  report.mutable_owner()->set_finished(true);
  tasks.Next(owner, report);
  waiter.join();
  EXPECT_LE(clock.looks, 2) << "more than once without a reason";
}

// All but the last worker of a step wait, and nothing is to be begun before that one is done.
TEST_F(TaskCoordinatorTest, InSyncOnlyTheEndOfAStepWakesThoseWhoWaitForTheNext) {
  constexpr int kParts = 200;
  const LooksClock clock;
  TaskCoordinatorOptions options = Options();
  options.leases.sync = true;
  options.patience = std::chrono::minutes(1);
  TaskCoordinator tasks(options, clock);
  const Session owner = *tasks.Enter(Worker(0));
  const Session waiting = *tasks.Enter(Worker(1)), busy = *tasks.Enter(Worker(2));
  proto::Next report;
  report.mutable_owner();
  const std::uint64_t fence = tasks.Next(owner, report).fence();
  report.mutable_owner()->set_loaded(fence);
  report.mutable_owner()->set_until(2);
  report.mutable_owner()->set_parts(kParts);
  tasks.Next(owner, report);
  proto::Next question;
  question.set_fence(fence);
  question.set_wants_task(true);
  for (int part = 0; part < kParts; ++part) ASSERT_EQ(StepOf(tasks.Next(busy, question)), 0);
  clock.looks = 0;
  std::jthread waiter([&] { EXPECT_EQ(StepOf(tasks.Next(waiting, question)), 1); });
  EXPECT_TRUE(lockstep::testing::Eventually([&] { return clock.looks == 1; }));
  for (int part = 0; part < kParts; ++part) {
    proto::Next done;
    done.set_fence(fence);
    done.add_done()->set_part(part);
    EXPECT_TRUE(tasks.Next(busy, done).counted(0));
    std::this_thread::yield();
  }
  waiter.join();
  EXPECT_EQ(clock.looks, 2) << "more than once without a reason";
}

TEST_F(TaskCoordinatorTest, EachOrderToLoadHasAFenceOfItsOwn) {
  const Session owner = Enter(0);
  proto::Next next;
  next.mutable_owner();
  const std::uint64_t first = tasks_.Next(owner, next).fence();
  EXPECT_NE(tasks_.Next(owner, next).fence(), first);
  next.mutable_owner()->set_loaded(first);
  next.mutable_owner()->set_until(9);
  EXPECT_TRUE(tasks_.Next(owner, next).has_load()) << "an order that is out of date";
}

TEST_F(TaskCoordinatorTest, TheTasksOfAProcessThatLeavesGoToOthers) {
  const Session owner = Enter(0), other = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(other, fence)), 0);
  tasks_.Leave(other);
  EXPECT_EQ(tasks_.sessions(), 1);
  const proto::TaskReply reply = Ask(owner, fence);
  ASSERT_TRUE(reply.has_task());
  EXPECT_EQ(StepOf(reply), 0);
}

TEST_F(TaskCoordinatorTest, AHungProcessesTaskGoesToOthersAfterThePatience) {
  const Session owner = Enter(0), other = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(other, fence)), 0);
  ASSERT_EQ(StepOf(Ask(owner, fence)), 1);
  ASSERT_TRUE(Ask(owner, fence, 1).has_wait()) << "for the other";
  clock_.Advance(std::chrono::minutes(1));
  const proto::TaskReply reply = Ask(owner, fence);
  ASSERT_TRUE(reply.has_task());
  EXPECT_EQ(StepOf(reply), 0);
}

TEST_F(TaskCoordinatorTest, AProcessLearnsWhetherItsBatchCounts) {
  const Session owner = Enter(0), hung = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(hung, fence)), 0);
  clock_.Advance(std::chrono::minutes(1));
  ASSERT_EQ(StepOf(Ask(owner, fence)), 0);
  EXPECT_THAT(Ask(owner, fence, 0).counted(), ElementsAre(true));
  EXPECT_THAT(Ask(hung, fence, 0).counted(), ElementsAre(false)) << "the other was faster";
  EXPECT_THAT(Ask(owner, fence + 1, 1).counted(), IsEmpty()) << "of values that are lost";
}

// The process has lost its connection, and the answer with it.
TEST_F(TaskCoordinatorTest, AProcessThatRepeatsItsReportGetsTheSameAnswer) {
  const Session owner = Enter(0), first = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(first, fence)), 0);
  ASSERT_EQ(StepOf(Ask(owner, fence)), 1);
  EXPECT_THAT(Ask(first, fence, 0).counted(), ElementsAre(true));
  tasks_.Leave(first);
  const Session again = Enter(1);
  EXPECT_THAT(Ask(again, fence, 0).counted(), ElementsAre(true));
  EXPECT_THAT(Ask(owner, fence, 0).counted(), ElementsAre(false)) << "another process's batch";
  const Session successor = Enter(1, 2);
  const proto::TaskReply reply = Ask(successor, fence, 0);
  EXPECT_THAT(reply.counted(), ElementsAre(false)) << "its predecessor's batch";
  EXPECT_EQ(reply.dropped(), 2) << "a repeated report is none that came too late";
}

TEST_F(TaskCoordinatorTest, ARepeatedReportMayArriveBeforeTheFirst) {
  const Session owner = Enter(0), first = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(first, fence)), 0);
  const Session again = Enter(1);
  EXPECT_THAT(Ask(again, fence, 0).counted(), ElementsAre(true));
  const proto::TaskReply late = Ask(first, fence, 0);
  EXPECT_TRUE(late.turned().superseded());
  EXPECT_EQ(late.dropped(), 0);
}

TEST_F(TaskCoordinatorTest, AReportWhoseAnswerIsLostMayArriveAfterTheNextConnection) {
  const Session owner = Enter(0), first = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(first, fence)), 0);
  const Session again = Enter(1);
  EXPECT_TRUE(Ask(first, fence, 0).turned().superseded());
  EXPECT_THAT(Ask(again, fence, 0).counted(), ElementsAre(true));
}

TEST_F(TaskCoordinatorTest, AReportThatArrivesAfterALaterOneChangesNothing) {
  const Session owner = Enter(0), first = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(first, fence)), 0);
  ASSERT_EQ(StepOf(Ask(owner, fence)), 1);
  const Session again = Enter(1);
  EXPECT_EQ(StepOf(Ask(again, fence, 0)), 2);
  EXPECT_THAT(Ask(again, fence, 2).counted(), ElementsAre(true));
  const proto::TaskReply late = Ask(first, fence, 0);
  EXPECT_TRUE(late.turned().superseded());
  EXPECT_EQ(late.dropped(), 0) << "it has been counted";
  EXPECT_THAT(Ask(again, fence, 2).counted(), ElementsAre(true)) << "the answer was lost";
}

TEST_F(TaskCoordinatorTest, ALaterProcessHasTheEarlierOnesPlace) {
  const Session owner = Enter(0), early = Enter(1, 1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(early, fence)), 0);
  const Session late = Enter(1, 2);
  EXPECT_TRUE(Ask(early, fence).turned().superseded());
  EXPECT_TRUE(absl::IsAborted(tasks_.Enter(Worker(1, 1)).status()));
  EXPECT_EQ(StepOf(Ask(late, fence)), 0) << "the task that its predecessor held";
}

TEST_F(TaskCoordinatorTest, AProcessWhosePlaceIsTakenEndsNoFence) {
  const Session early = Enter(0, 1), worker = Enter(1);
  const std::uint64_t fence = Load(early);
  Enter(0, 2);
  proto::Next next;
  next.set_fence(fence);
  next.set_lost("a parameter server was asked to stop");
  EXPECT_TRUE(tasks_.Next(early, next).turned().superseded());
  EXPECT_EQ(StepOf(Ask(worker, fence)), 0);
}

TEST_F(TaskCoordinatorTest, NobodyWaitsForAProcessThatReportsAfterItsPlaceIsTaken) {
  const Session owner = Enter(0), early = Enter(1, 1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(early, fence)), 0);
  tasks_.Leave(Enter(1, 2));
  EXPECT_TRUE(Ask(early, fence, 0).turned().superseded());
  tasks_.Leave(early);
  for (std::int64_t step = 1; step < 5; ++step) {
    const proto::TaskReply reply = Ask(owner, fence, step - 1);
    ASSERT_TRUE(reply.has_task()) << "step " << step;
    EXPECT_EQ(StepOf(reply), step);
  }
}

TEST_F(TaskCoordinatorTest, AProcessWithOtherDataOrAnotherModelIsRefused) {
  Enter(0);
  proto::Introduction other = Worker(1);
  other.set_fingerprint("trainSamples=8;classes=3;");
  const absl::Status refused = tasks_.Enter(other).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_EQ(refused.message(),
            "worker 1 has classes=3, expected classes=2 as the process that came first has it");
}

TEST_F(TaskCoordinatorTest, ALostServerEndsTheFenceAndTheLeadingProcessLoadsAgain) {
  const Session owner = Enter(0), other = Enter(1);
  const std::uint64_t fence = Load(owner);
  proto::Next lost;
  lost.set_lost("ps 1 was started anew");
  lost.set_fence(fence + 1);
  tasks_.Next(other, lost);
  EXPECT_EQ(Ask(other, fence).answer_case(), proto::TaskReply::kTask) << "another fence is lost";
  lost.set_fence(fence);
  tasks_.Next(other, lost);
  EXPECT_TRUE(Ask(other, fence).has_wait());
  const std::uint64_t next = Load(owner);
  EXPECT_NE(next, fence);
  const proto::TaskReply reply = Ask(other, fence, /*done=*/0);
  EXPECT_EQ(StepOf(reply), 0) << "what was done under the old fence does not count";
}

TEST_F(TaskCoordinatorTest, AtTheStepThatTheLeadingProcessNamesItAloneIsAnswered) {
  const Session owner = Enter(0), other = Enter(1);
  const std::uint64_t fence = Load(owner, /*until=*/1);
  ASSERT_EQ(StepOf(Ask(other, fence)), 0);
  EXPECT_TRUE(Ask(owner, fence).has_wait()) << "a task is under way";
  EXPECT_TRUE(Ask(other, fence, 0).has_wait());
  const proto::TaskReply reply = Ask(owner, fence);
  ASSERT_TRUE(reply.has_paused());
  EXPECT_EQ(reply.paused().step(), 1);
  proto::Next go_on;
  go_on.set_fence(fence);
  go_on.mutable_owner()->set_step(1);
  go_on.mutable_owner()->set_until(2);
  tasks_.Next(owner, go_on);
  EXPECT_EQ(StepOf(Ask(owner, fence)), 1);
}

TEST_F(TaskCoordinatorTest, AServerThatStopsMakesAPause) {
  const Session owner = Enter(0), other = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(other, fence)), 0);
  proto::Next next;
  next.set_fence(fence);
  next.add_done()->set_step(0);
  next.set_stopping(true);
  tasks_.Next(other, next);
  EXPECT_EQ(Ask(owner, fence).paused().step(), 1);
}

TEST_F(TaskCoordinatorTest, TheLeadingProcessesSuccessorGetsTheRunsStateAndTheStepsSince) {
  const Session owner = Enter(0), other = Enter(1);
  const std::uint64_t fence = Load(owner);
  ASSERT_EQ(StepOf(Ask(other, fence)), 0);
  tasks_.Leave(owner);
  ASSERT_EQ(StepOf(Ask(other, fence, 0)), 1);
  const proto::TaskReply reply = Ask(Enter(0, 2), 0);
  EXPECT_EQ(reply.run_state(), "state");
  EXPECT_EQ(reply.run_state_step(), 0);
  EXPECT_EQ(reply.fence(), fence) << "the values need not be loaded again";
  ASSERT_EQ(reply.records_size(), 1);
  EXPECT_EQ(reply.records(0).step(), 0);
}

TEST_F(TaskCoordinatorTest, ASuccessorGetsManyRecordsInSmallRepliesAndPausesWhenItHasAll) {
  constexpr std::int64_t kSteps = 30000;
  const Session owner = Enter(0), other = Enter(1);
  const std::uint64_t fence = Load(owner, /*until=*/kSteps);
  tasks_.Leave(owner);
  proto::Next report;
  report.set_fence(fence);
  report.set_wants_task(true);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    ASSERT_EQ(StepOf(tasks_.Next(other, report)), step);
    report.clear_done();
    proto::TaskDone& done = *report.add_done();
    done.set_step(step);
    done.set_loss(1.5);
    done.set_correct(3);
    done.set_examples(64);
    done.set_hash(~std::uint64_t{0});
    done.set_gradient_norm(0.5);
  }
  tasks_.Next(other, report);
  const Session successor = Enter(0, 2);
  proto::Next next;
  next.mutable_owner();
  std::int64_t known = 0;
  for (int replies = 0; replies < 100; ++replies) {
    const proto::TaskReply reply = tasks_.Next(successor, next);
    EXPECT_LT(reply.ByteSizeLong(), 1u << 20);
    for (const proto::StepRecord& record : reply.records()) ASSERT_EQ(record.step(), known++);
    if (reply.has_paused()) {
      EXPECT_EQ(reply.paused().step(), kSteps);
      break;
    }
    next.set_fence(reply.fence());
    next.mutable_owner()->set_step(known);
  }
  EXPECT_EQ(known, kSteps);
}

TEST_F(TaskCoordinatorTest, WhenTheRunIsOverAllAreTold) {
  const Session owner = Enter(0), other = Enter(1);
  Load(owner);
  proto::Next next;
  next.mutable_owner()->set_finished(true);
  tasks_.Next(other, next);
  EXPECT_FALSE(tasks_.finished()) << "the leading process alone may say so";
  EXPECT_TRUE(tasks_.Next(owner, next).has_finished());
  EXPECT_TRUE(tasks_.finished());
  EXPECT_TRUE(Ask(other, 0).has_finished());
}

TEST_F(TaskCoordinatorTest, AfterAStopNobodyGetsATask) {
  const Session owner = Enter(0);
  const std::uint64_t fence = Load(owner);
  tasks_.Stop();
  EXPECT_TRUE(Ask(owner, fence).has_wait());
}

}  // namespace
}  // namespace lockstep::train
