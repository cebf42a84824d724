#include <gmock/gmock.h>

#include "operator/cli/progress_line.h"
#include "operator/cli/run_report.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

RunReport Report(const std::string& state) {
  RunReport report;
  report.status.state = state;
  report.work_dir = "w";
  return report;
}

TEST(ProgressLineTest, SaysWhatIsKnown) {
  api::Progress progress;
  progress.step = 704;
  progress.total_steps = 938;
  progress.epoch = 1.501;
  progress.loss = 0.0312;
  progress.accuracy = 0.98911;
  progress.examples_per_second = 1234.4;
  progress.estimated_remaining_seconds = 12;
  EXPECT_EQ(ProgressLine(progress),
            "epoch 1.50/2  step 704/938  loss 0.0312  accuracy 98.91 %  1,234 images/s  0:12 left");
  EXPECT_EQ(ProgressLine(api::Progress()), "epoch 0.00  step 0");
}

TEST(ProgressLineTest, TimesAreReadable) {
  EXPECT_EQ(FormatSeconds(0.4), "0:00");
  EXPECT_EQ(FormatSeconds(59.6), "1:00");
  EXPECT_EQ(FormatSeconds(3723), "1:02:03");
}

TEST(RunReportTest, TheExitCodeIsTheJobsOutcome) {
  EXPECT_EQ(ExitCode(Report("Succeeded")), 0);
  RunReport failed = Report("Failed");
  EXPECT_EQ(ExitCode(failed), 1) << "a failure of no replica";
  failed.status.failure.emplace().exit_code = 20;
  EXPECT_EQ(ExitCode(failed), 20);
  failed.status.failure->exit_code = 0;
  EXPECT_EQ(ExitCode(failed), 1) << "a failed job must not look like success";
  failed.end = RunReport::End::kInterrupted;
  EXPECT_EQ(ExitCode(failed), 130);
  failed.end = RunReport::End::kTimedOut;
  EXPECT_EQ(ExitCode(failed), 124);
}

TEST(RunReportTest, WhatIsNotKnownIsNull) {
  RunReport report = Report("Succeeded");
  report.status.progress.emplace().step = 9;
  report.checkpoint = "w/volumes/c/step-9";
  const auto json = ToJson(report);
  EXPECT_EQ(json["steps"], 9);
  EXPECT_EQ(json["checkpoint"], "w/volumes/c/step-9");
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["images_per_second"].is_null());
  EXPECT_TRUE(json["failure"].is_null());
}

TEST(RunReportTest, TextNamesTheFailureAndTheFiles) {
  RunReport report = Report("Failed");
  report.logs = "w/logs";
  api::Failure& failure = report.status.failure.emplace();
  failure = {.role = "worker",
             .index = 1,
             .node = "",
             .exit_code = 11,
             .reason = "Error",
             .message = "train-images: wrong magic"};
  const std::string text = ToText(report);
  EXPECT_THAT(text, HasSubstr("worker 1 ended with exit code 11"));
  EXPECT_THAT(text, HasSubstr("train-images: wrong magic"));
  EXPECT_THAT(text, HasSubstr("w/logs"));
}

}  // namespace
}  // namespace lockstep::cli
