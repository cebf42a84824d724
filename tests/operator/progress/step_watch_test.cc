#include "operator/progress/step_watch.h"

#include <gtest/gtest.h>

#include <functional>

#include "api/proto/trainer_status.pb.h"

namespace lockstep::progress {
namespace {

using std::chrono::seconds;

proto::GetStatusResponse InStep(std::int64_t finished) {
  proto::GetStatusResponse said;
  said.set_generation(1);
  said.set_activity(proto::ACTIVITY_STEP);
  said.mutable_progress()->set_step(finished);
  said.mutable_progress()->set_total_steps(100);
  return said;
}

SteadyTime At(int second) {
  return SteadyTime(seconds(second));
}

TEST(StepWatchTest, TimeCountsFromTheFirstAnswerThatTellsOfAStepToTheLast) {
  StepWatch watch;
  EXPECT_FALSE(watch.InStepFor());
  watch.Record(InStep(7), At(10));
  EXPECT_EQ(watch.InStepFor(), seconds(0));
  watch.Record(InStep(7), At(15));
  watch.Record(InStep(7), At(40));
  EXPECT_EQ(watch.InStepFor(), seconds(30));
  watch.Record(InStep(8), At(45));
  EXPECT_EQ(watch.InStepFor(), seconds(0));
  watch.Record(InStep(8), At(50));
  watch.Reset();
  EXPECT_FALSE(watch.InStepFor());
  watch.Record(InStep(8), At(60));
  EXPECT_EQ(watch.InStepFor(), seconds(0)) << "nobody heard of it in between";
}

TEST(StepWatchTest, AStepThatIsDoneAgainIsAnother) {
  StepWatch watch;
  watch.Record(InStep(7), At(0));
  watch.Record(InStep(5), At(10));  // restored from a checkpoint
  EXPECT_EQ(watch.InStepFor(), seconds(0));
  proto::GetStatusResponse regrouped = InStep(5);
  regrouped.set_generation(2);
  watch.Record(regrouped, At(20));
  EXPECT_EQ(watch.InStepFor(), seconds(0));
}

TEST(StepWatchTest, AStepGoesOnWhileThoseWhoLeftItWaitForOneThatHangsInIt) {
  StepWatch watch;
  watch.Record(InStep(7), At(0));
  watch.Record(InStep(7), At(300));
  proto::GetStatusResponse gathering = InStep(7);
  gathering.set_activity(proto::ACTIVITY_UNKNOWN);
  gathering.add_missing("worker 2");
  gathering.set_straggler_count(1);  // it is named only later
  watch.Record(gathering, At(305));
  watch.Record(gathering, At(600));
  EXPECT_EQ(watch.InStepFor(), seconds(600));
  proto::GetStatusResponse lost = gathering;
  lost.add_missing("worker 3");
  watch.Record(lost, At(605));
  EXPECT_FALSE(watch.InStepFor()) << "worker 3 does not hang, it is not there";
  watch.Record(gathering, At(610));
  EXPECT_FALSE(watch.InStepFor()) << "no step was begun";
  watch.Record(InStep(7), At(620));
  lost = gathering;
  lost.add_missing_members("worker-2");
  watch.Record(lost, At(630));
  EXPECT_FALSE(watch.InStepFor());
}

TEST(StepWatchTest, TheFirstStepCountsBeforeThereIsProgress) {
  StepWatch watch;
  proto::GetStatusResponse said = InStep(0);
  said.clear_progress();
  watch.Record(said, At(0));
  watch.Record(said, At(30));
  EXPECT_EQ(watch.InStepFor(), seconds(30));
  watch.Record(InStep(1), At(35));
  EXPECT_EQ(watch.InStepFor(), seconds(0));
}

TEST(StepWatchTest, WhatIsNoStepDoesNotCount) {
  using Change = std::function<void(proto::GetStatusResponse&)>;
  const std::pair<const char*, Change> changes[] = {
      {"joining", [](auto& said) { said.set_activity(proto::ACTIVITY_UNKNOWN); }},
      {"sharing state", [](auto& said) { said.set_activity(proto::ACTIVITY_SHARING_STATE); }},
      {"evaluating", [](auto& said) { said.set_activity(proto::ACTIVITY_EVALUATION); }},
      {"saving", [](auto& said) { said.set_activity(proto::ACTIVITY_CHECKPOINT); }},
      {"waiting for a member", [](auto& said) { said.add_missing("worker 1"); }},
      {"done", [](auto& said) { said.mutable_progress()->set_step(100); }}};
  for (const auto& [name, change] : changes) {
    StepWatch watch;
    watch.Record(InStep(7), At(0));
    proto::GetStatusResponse said = InStep(7);
    change(said);
    watch.Record(said, At(100));
    EXPECT_FALSE(watch.InStepFor()) << name;
    watch.Record(InStep(7), At(200));
    EXPECT_EQ(watch.InStepFor(), seconds(0)) << name << ": time counts anew";
  }
}

TEST(StepWatchTest, WithoutATotalNoStepIsTheLast) {
  StepWatch watch;
  proto::GetStatusResponse said = InStep(7);
  said.mutable_progress()->set_total_steps(0);
  watch.Record(said, At(0));
  EXPECT_TRUE(watch.InStepFor());
}

}  // namespace
}  // namespace lockstep::progress
