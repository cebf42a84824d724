#include "operator/cli/local/run_report.h"

#include <gmock/gmock.h>

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunReport Report(const std::string& state) {
  RunReport report;
  report.status.state = state;
  report.work_dir = "w";
  return report;
}

TEST(RunReportTest, TheExitCodeIsTheJobsOutcome) {
  EXPECT_EQ(ExitCodeOfRun(Report("Succeeded")).code, 0);
  RunReport failed = Report("Failed");
  EXPECT_EQ(ExitCodeOfRun(failed).code, 1) << "a failure of no replica";
  failed.status.failure.emplace().exit_code = 20;
  EXPECT_EQ(ExitCodeOfRun(failed).code, 20);
  failed.status.failure->exit_code = 0;
  EXPECT_EQ(ExitCodeOfRun(failed).code, 1) << "a failed job must not look like success";
  failed.end = RunReport::End::kInterrupted;
  EXPECT_EQ(ExitCodeOfRun(failed).code, 130);
  failed.end = RunReport::End::kTimedOut;
  EXPECT_EQ(ExitCodeOfRun(failed).code, 124);
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

TEST(RunReportTest, NamedMetricsAreShown) {
  RunReport report = Report("Succeeded");
  EXPECT_FALSE(ToJson(report).contains("test_metrics"));
  report.status.progress.emplace().test_metrics = {{api::TestMetric::kAuc, 0.875}};
  report.status.variants = {{.test_metrics = {{api::TestMetric::kRecall, 0.5}}}};
  const auto json = ToJson(report);
  EXPECT_EQ(json["test_metrics"]["AUC"], 0.875);
  EXPECT_EQ(json["variants"][0]["test_metrics"]["Recall"], 0.5);
  EXPECT_THAT(ToText(report), HasSubstr("test           AUC 0.875\n"));
}

TEST(RunReportTest, RegressionHasErrorsAndNoAccuracy) {
  RunReport report = Report("Succeeded");
  api::Progress& progress = report.status.progress.emplace();
  progress.step = 7;
  progress.loss = 0.5;
  EXPECT_FALSE(ToJson(report).contains("mean_absolute_error"));
  progress.mean_absolute_error = 0.25;
  progress.test_mean_absolute_error = 0.125;
  report.status.variants = {{.test_mean_absolute_error = 3}};
  const auto json = ToJson(report);
  EXPECT_TRUE(json["accuracy"].is_null());
  EXPECT_EQ(json["mean_absolute_error"], 0.25);
  EXPECT_EQ(json["test_mean_absolute_error"], 0.125);
  EXPECT_EQ(json["variants"][0]["test_mean_absolute_error"], 3);
  const std::string text = ToText(report);
  EXPECT_THAT(text, HasSubstr("test           mean absolute error 0.125\n"));
  EXPECT_THAT(text, HasSubstr("loss 0.5000, mean absolute error 0.25 after 7 steps"));
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

TEST(RunReportTest, WhatAProgramSaidLastDoesNotCommandTheTerminal) {
  RunReport report = Report("Failed");
  report.status.failure.emplace().message = "\033[2Jgone\n";
  EXPECT_THAT(ToText(report), AllOf(HasSubstr("?[2Jgone\n"), Not(HasSubstr("\033"))));
}

TEST(RunReportTest, ARunThatWasStoppedTellsOfTheLastFailure) {
  RunReport report = Report("Restarting");
  report.status.failure = {.role = "worker",
                           .index = 1,
                           .node = "",
                           .exit_code = 127,
                           .reason = "StartError",
                           .message = "command not found: python"};
  EXPECT_TRUE(ToJson(report)["failure"].is_null()) << "the run was not stopped";
  for (const auto end : {RunReport::End::kInterrupted, RunReport::End::kTimedOut}) {
    report.end = end;
    EXPECT_EQ(ToJson(report)["failure"]["message"], "command not found: python");
    EXPECT_EQ(ToJson(report)["failure"]["exit_code"], 127);
    EXPECT_THAT(ToText(report),
                HasSubstr("The last failure: worker 1 ended with exit code 127 (StartError)\n"
                          "command not found: python\n"));
  }
  report.status.failure.reset();
  EXPECT_TRUE(ToJson(report)["failure"].is_null());
}

}  // namespace
}  // namespace lockstep::cli
