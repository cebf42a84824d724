#include "operator/controller/state/progress_reports.h"

#include <gtest/gtest.h>

#include <utility>

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kNow{seconds(1'700'000'000)};

SteadyTime At(int second) {
  return SteadyTime(seconds(1000 + second));
}

TEST(MergedProgressTest, WhatAReportDoesNotSayStaysButForTheTimeLeft) {
  const api::Progress first =
      Merged({.remaining_seconds = 60, .loss = 0.5, .step = 10, .total_steps = 100}, std::nullopt,
             kNow + milliseconds(700));
  EXPECT_EQ(first.step, 10);
  EXPECT_EQ(first.total_steps, 100);
  EXPECT_EQ(first.loss, 0.5);
  EXPECT_EQ(first.estimated_remaining_seconds, 60);
  EXPECT_EQ(first.update_time, kNow);
  const api::Progress second = Merged({.test_accuracy = 0.9, .step = 20}, first, kNow);
  EXPECT_EQ(second.step, 20);
  EXPECT_EQ(second.total_steps, 100);
  EXPECT_EQ(second.loss, 0.5);
  EXPECT_EQ(second.test_accuracy, 0.9);
  EXPECT_FALSE(second.estimated_remaining_seconds);
}

TEST(MergedProgressTest, APercentageStandsForSteps) {
  EXPECT_EQ(Merged({.percentage = 45}, std::nullopt, kNow).step, 45);
  EXPECT_EQ(Merged({.percentage = 45}, std::nullopt, kNow).total_steps, 100);
  // As Hugging Face's callback ends.
  const api::Progress before{.step = 495, .total_steps = 500};
  EXPECT_EQ(Merged({.percentage = 100}, before, kNow).step, 500);
  EXPECT_EQ(Merged({.percentage = 30, .step = 7}, before, kNow).step, 7) << "steps are exact";
  EXPECT_EQ(Merged({.percentage = 100, .step = 499}, before, kNow).step, 500) << "counted from 0";
  const std::int64_t most = 9'007'199'254'740'991;
  EXPECT_EQ(Merged({.percentage = 100, .total_steps = most}, std::nullopt, kNow).step, most);
}

TEST(MergedProgressTest, ATotalThatTheProgramHasNotSaidEndsWhereItsStepsGoOn) {
  const api::Progress phase = Merged({.percentage = 100, .step = 500}, std::nullopt, kNow);
  EXPECT_EQ(std::pair(phase.step, phase.total_steps), std::pair(500L, 500L));
  for (const ProgressReport& next :
       {ProgressReport{.percentage = 10, .step = 500}, ProgressReport{.step = 501}}) {
    EXPECT_EQ(Merged(next, phase, kNow).total_steps, 0);
    EXPECT_EQ(Merged(next, phase, kNow).step, next.step);
  }
  EXPECT_EQ(Merged({.step = 500}, phase, kNow).total_steps, 500);
}

TEST(ProgressReportsTest, AJobMayReportOftenForAMomentAndThenOncePerInterval) {
  ProgressReports reports;
  for (int i = 0; i < ProgressReports::kBurst; ++i) EXPECT_TRUE(reports.MayReport("a", At(0)));
  EXPECT_FALSE(reports.MayReport("a", At(0)));
  EXPECT_TRUE(reports.MayReport("b", At(0))) << "another job";
  EXPECT_TRUE(reports.MayReport("a", At(1)));
  EXPECT_FALSE(reports.MayReport("a", At(1)));
  for (int i = 0; i < ProgressReports::kBurst; ++i) EXPECT_TRUE(reports.MayReport("a", At(600)));
  EXPECT_FALSE(reports.MayReport("a", At(600))) << "idle time adds up to a burst";
}

TEST(ProgressReportsTest, TheTimeWithoutChangeCountsFromTheLastReportThatSaysMore) {
  ProgressReports reports;
  EXPECT_FALSE(reports.Of("a", {0}).latest);
  reports.Take("a", 0, {.step = 1, .digest = 1}, {}, kNow, At(0));
  EXPECT_EQ(reports.Of("a", {0}).same_since, At(0));
  reports.Take("a", 0, {.step = 1, .digest = 1}, {}, kNow, At(20));
  EXPECT_EQ(reports.Of("a", {0}).same_since, At(0));
  reports.Take("a", 0, {.step = 2, .digest = 2}, {}, kNow, At(40));
  EXPECT_EQ(reports.Of("a", {0}).same_since, At(40));
  EXPECT_EQ(reports.Of("a", {0}).latest->step, 2);
}

TEST(ProgressReportsTest, EachAttemptIsJudgedByItsOwnReports) {
  ProgressReports reports;
  reports.Take("a", 3, {.step = 1, .digest = 1}, {}, kNow, At(0));
  EXPECT_EQ(reports.Of("a", {3}).same_since, At(0)) << "whoever asks for the first time";
  EXPECT_FALSE(reports.Of("a", {4}).same_since);
  EXPECT_EQ(reports.Of("a", {4}).latest->step, 1) << "it is still the latest";
  reports.Take("a", 4, {.step = 1, .digest = 1}, {}, kNow, At(4));
  EXPECT_EQ(reports.Of("a", {4}).same_since, At(4));
}

TEST(ProgressReportsTest, AProgramThatBeginsAgainWithinAnAttemptHasReportedNothing) {
  for (const ProgressReports::Run& again :
       {ProgressReports::Run{3, "p1", 1}, ProgressReports::Run{3, "p2", 0}}) {
    ProgressReports reports;
    EXPECT_FALSE(reports.Of("a", {3, "p1", 0}).same_since);
    reports.Take("a", 3, {.step = 1, .digest = 1}, {}, kNow, At(0));
    EXPECT_EQ(reports.Of("a", {3, "p1", 0}).same_since, At(0));
    EXPECT_EQ(reports.Of("a", {3, "", 0}).same_since, At(0)) << "its pod may be seen again";
    EXPECT_FALSE(reports.Of("a", {3, "p1", 0}).began_again);
    EXPECT_FALSE(reports.Of("a", again).same_since);
    EXPECT_TRUE(reports.Of("a", again).began_again);
    reports.Take("a", 3, {.step = 1, .digest = 1}, {}, kNow, At(4));
    EXPECT_EQ(reports.Of("a", again).same_since, At(4));
    reports.Take("a", 4, {.step = 1, .digest = 1}, {}, kNow, At(5));
    EXPECT_EQ(reports.Of("a", {4, "p3", 0}).same_since, At(5)) << "it came before the first look";
    EXPECT_FALSE(reports.Of("a", {4, "p3", 0}).began_again);
  }
}

TEST(ProgressReportsTest, TheFirstReportExtendsWhatTheStatusHas) {
  ProgressReports reports;
  const api::Progress status{.step = 2250, .total_steps = 5000, .test_loss = 0.25};
  reports.Take("a", 0, {.percentage = 50}, status, kNow, At(0));
  EXPECT_EQ(reports.Of("a", {0}).latest->step, 2500);
  EXPECT_EQ(reports.Of("a", {0}).latest->total_steps, 5000);
  EXPECT_EQ(reports.Of("a", {0}).latest->test_loss, 0.25);
  reports.Take("a", 0, {.loss = 0.5}, status, kNow, At(1));
  EXPECT_EQ(reports.Of("a", {0}).latest->step, 2500) << "the latest is newer than the status";
}

TEST(ProgressReportsTest, AProgramThatIsDoneIsNotWaitedFor) {
  ProgressReports reports;
  reports.Take("a", 0, {.percentage = 100, .digest = 1}, {}, kNow, At(0));
  EXPECT_FALSE(reports.Of("a", {0}).same_since);
  reports.Take("b", 0, {.step = 9, .total_steps = 9, .digest = 1}, {}, kNow, At(0));
  EXPECT_FALSE(reports.Of("b", {0}).same_since);
}

TEST(ProgressReportsTest, TheReportByWhichAProgramIsDoneIsTold) {
  ProgressReports reports;
  EXPECT_FALSE(reports.Take("a", 0, {.percentage = 99, .digest = 1}, {}, kNow, At(0)));
  EXPECT_TRUE(reports.Take("a", 0, {.percentage = 100, .digest = 2}, {}, kNow, At(1)));
  EXPECT_FALSE(reports.Take("a", 0, {.percentage = 100, .digest = 3}, {}, kNow, At(2)));
  const api::Progress status{.step = 9, .total_steps = 9};
  EXPECT_FALSE(reports.Take("b", 0, {.percentage = 100, .digest = 1}, status, kNow, At(0)));
}

TEST(ProgressReportsTest, AReportThatComesTooSoonToBeReadIsASignOfLife) {
  ProgressReports reports;
  for (int i = 0; i <= ProgressReports::kBurst; ++i)
    EXPECT_TRUE(reports.MayReport("a", At(i == 0 ? 0 : 1)));
  reports.Take("a", 0, {.step = 1, .digest = 1}, {}, kNow, At(0));
  EXPECT_FALSE(reports.MayReport("a", At(1)));
  EXPECT_EQ(reports.Of("a", {0}).same_since, At(1));
  EXPECT_TRUE(reports.MayReport("a", At(20)));
  reports.Take("a", 0, {.step = 1, .digest = 1}, {}, kNow, At(20));
  EXPECT_EQ(reports.Of("a", {0}).same_since, At(1)) << "it has been saying the same";
}

TEST(ProgressReportsTest, ALossIsKnownOfEveryJob) {
  ProgressReports reports;
  reports.Take("a", 0, {.step = 1, .digest = 1}, {}, kNow, At(0));
  EXPECT_LT(reports.Of("a", {0}).last_loss, At(0));
  reports.NoteLoss(At(3));
  EXPECT_EQ(reports.Of("a", {0}).last_loss, At(3));
  EXPECT_EQ(reports.Of("b", {0}).last_loss, At(3));
  EXPECT_EQ(reports.Of("a", {0}).same_since, At(0));
}

TEST(ProgressReportsTest, WhileThisProcessIsNotReadyNothingMayArrive) {
  ProgressReports reports;
  EXPECT_FALSE(reports.Of("a", {0}).is_cut_off) << "no probe asks";
  reports.NoteReadiness(false, At(1));
  EXPECT_TRUE(reports.Of("a", {0}).is_cut_off);
  reports.NoteReadiness(true, At(3));
  EXPECT_FALSE(reports.Of("a", {0}).is_cut_off);
  EXPECT_EQ(reports.Of("a", {0}).last_loss, At(3));
  reports.NoteReadiness(true, At(4));
  EXPECT_EQ(reports.Of("a", {0}).last_loss, At(3)) << "everything has arrived since";
}

TEST(ProgressReportsTest, BeforeTheFirstProbeNothingMayHaveArrived) {
  ProgressReports reports;
  reports.NoteReadiness(true, At(3));
  EXPECT_EQ(reports.Of("a", {0}).last_loss, At(3));
}

TEST(ReportChannelTest, AnotherUrlOrTokenHasAnother) {
  const api::JobToken token("0123456789abcdef");
  const std::string channel = ChannelOf("http://a", token);
  EXPECT_EQ(channel.size(), 16U);
  EXPECT_EQ(channel, ChannelOf("http://a", token));
  EXPECT_NE(channel, ChannelOf("http://b", token));
  EXPECT_NE(channel, ChannelOf("http://a", api::JobToken("fedcba9876543210")));
  EXPECT_FALSE(ChannelOf("http://a", api::JobToken()).empty()) << "a key that is not known yet";
}

TEST(ProgressReportsTest, AForgottenJobIsUnknown) {
  ProgressReports reports;
  reports.Take("a", 0, {.step = 1, .digest = 1}, {}, kNow, At(0));
  reports.Forget("a");
  EXPECT_FALSE(reports.Of("a", {0}).latest);
}

}  // namespace
}  // namespace lockstep::controller
