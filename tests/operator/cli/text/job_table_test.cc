#include "operator/cli/text/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/builders.h"

namespace lockstep::cli {
namespace {

using lockstep::testing::Job;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr Time kNow{seconds(1'700'000'000)};

api::TrainingJob Running() {
  api::TrainingJob job = Job("mnist").Workers(4).Build();
  job.metadata.creation_time = kNow - minutes(12);
  job.status.state = "Running";
  job.status.ready_replicas = "3/4";
  job.status.restart_count = 2;
  api::Progress& progress = job.status.progress.emplace();
  progress.step = 704;
  progress.total_steps = 938;
  progress.loss = 0.03121;
  progress.examples_per_second = 1234.4;
  progress.estimated_remaining_seconds = 72;
  return job;
}

TEST(JobTableTest, ARowSaysHowTheJobStands) {
  EXPECT_EQ(
      JobTable({Running(), Job("new").Workers(1).Build()}, kNow, {}),
      "NAME    STATE     READY   STEP      PROGRESS   LOSS      SPEED    LEFT   RESTARTS   AGE\n"
      "mnist   Running   3/4     704/938   75%        0.03121   1234/s   1:12   2          12m\n"
      "new     -         -       -         -          -         -        -      0          -\n");
}

TEST(JobTableTest, ATerminalGetsBarsAndLinesThatFit) {
  const std::string table =
      JobTable({Running()}, kNow, {.namespaces = true, .bars = true, .width = 200});
  EXPECT_THAT(table, HasSubstr("default     mnist"));
  EXPECT_THAT(table, HasSubstr("[###############-----]  75%"));
  const std::string narrow = JobTable({Running()}, kNow, {.bars = true, .width = 20});
  EXPECT_EQ(narrow.find('\n'), 20U);
  EXPECT_EQ(narrow.size(), 42U);
}

TEST(JobTableTest, TheWideTableHasWhateverIsMeasuredOnTheTestSet) {
  api::TrainingJob job = Running();
  EXPECT_THAT(JobTable({job}, kNow, {.wide = true}),
              AllOf(HasSubstr("CHECKPOINT   TEST METRICS\n"), EndsWith(" -\n")));
  job.status.progress->test_mean_absolute_error = 1.25;
  job.status.progress->test_metrics[api::TestMetric::kRootMeanSquaredError] = 2.5;
  EXPECT_THAT(JobTable({job}, kNow, {.wide = true}),
              EndsWith("   MeanAbsoluteError 1.25, RootMeanSquaredError 2.5\n"));
}

TEST(JobTableTest, AnEndedJobHasNoTimeLeft) {
  api::TrainingJob job = Running();
  job.status.conditions.push_back({"Succeeded", api::ConditionStatus::kTrue, 1, kNow, "Done", ""});
  EXPECT_EQ(JobTable({job}, kNow, {}).find("1:12"), std::string::npos);
}

TEST(JobTableTest, AFractionIsRoundedDown) {
  api::TrainingJob job = Running();
  job.status.progress->step = 934;  // 99.6 %
  EXPECT_THAT(JobTable({job}, kNow, {}), HasSubstr(" 934/938   99% "));
  job.status.progress->step = 29;
  job.status.progress->total_steps = 100;
  EXPECT_THAT(JobTable({job}, kNow, {}), HasSubstr(" 29/100   29% "));
  EXPECT_EQ(ProgressBar(0.29, 1), "[-]  29%");
}

TEST(JobTableTest, BarsAreFullOnlyAtTheEnd) {
  EXPECT_EQ(ProgressBar(0, 10), "[----------]   0%");
  EXPECT_EQ(ProgressBar(0.999, 10), "[#########-]  99%");
  EXPECT_EQ(ProgressBar(1, 10), "[##########] 100%");
  EXPECT_EQ(ProgressBar(7, 4), "[####] 100%");
  EXPECT_EQ(ProgressBar(-1, 4), "[----]   0%");
  EXPECT_EQ(ProgressBar(0.0 / 0.0, 4), "[----]   0%");
}

TEST(JobTableTest, AgesAreToldAsKubectlDoes) {
  EXPECT_EQ(FormatAge(seconds(-5)), "0s");
  EXPECT_EQ(FormatAge(seconds(119)), "119s");
  EXPECT_EQ(FormatAge(minutes(2)), "2m");
  EXPECT_EQ(FormatAge(hours(47)), "47h");
  EXPECT_EQ(FormatAge(hours(49)), "2d");
}

TEST(JobTableTest, WhatTenantsWriteDoesNotSteerTheTerminal) {
  api::TrainingJob job = Running();
  job.status.state = "\033[2J";
  job.status.failure =
      api::Failure{"worker", 1, "n\r", 137, "\033]0;x\007", "\302\233 1ä\n\tb\177"};
  EXPECT_EQ(JobDetails(job).find('\033'), std::string::npos);
  EXPECT_THAT(JobDetails(job), ::testing::EndsWith("last failure: worker-1 on n?, exit code 137, "
                                                   "?]0;x?\n? 1ä\n\tb?\n"));
  EXPECT_EQ(JobTable({job}, kNow, {}).find('\033'), std::string::npos);
}

TEST(JobTableTest, VariantsAreComparedAndTheBestIsMarked) {
  EXPECT_EQ(VariantTable({}), "");
  const std::vector<api::VariantResult> variants = {
      {.index = 0,
       .name = "a",
       .step = 10,
       .loss = 0.5,
       .accuracy = 0.9,
       .test_loss = 0.6,
       .test_accuracy = 0.875},
      {.index = 1, .name = "longer", .diverged = true, .step = 3},
      {.index = 2, .name = "\033c", .step = 10, .loss = 0.75, .test_accuracy = 0.9}};
  EXPECT_EQ(VariantTable(variants),
            "VARIANT   END        STEPS   LOSS   ACCURACY   TEST LOSS   TEST ACCURACY\n"
            "a         done       10      0.5    90.00%     0.6         87.50%\n"
            "longer    diverged   3       -      -          -           -\n"
            "?c        done       10      0.75   -          -           90.00%          best\n");
  EXPECT_THAT(
      VariantTable({{.index = 0, .name = "a", .loss = 2}, {.index = 1, .name = "b", .loss = 1}}),
      HasSubstr("-               best\n"));
  const std::vector<api::VariantResult> named = {
      {.index = 0, .name = "a", .loss = 2, .test_metrics = {{api::TestMetric::kAuc, 0.75}}},
      {.index = 1, .name = "b", .loss = 1}};
  EXPECT_EQ(
      VariantTable(named),
      "VARIANT   END    STEPS   LOSS   ACCURACY   TEST LOSS   TEST ACCURACY   TEST AUC\n"
      "a         done   0       2      -          -           -               0.75\n"
      "b         done   0       1      -          -           -               -          best\n");
  api::TrainingJob job = Running();
  job.status.variants = variants;
  EXPECT_THAT(JobDetails(job), HasSubstr("longer    diverged"));
}

TEST(JobTableTest, DetailsSayWhatHoldsAndWhatFailedLast) {
  api::TrainingJob job = Running();
  job.status.state = "Pending";
  job.status.progress->last_checkpoint_step = 600;
  job.status.conditions = {
      {"Created", api::ConditionStatus::kTrue, 1, kNow, "JobCreated", "seen"},
      {"Running", api::ConditionStatus::kFalse, 1, kNow, "PodWaiting", "mnist-worker-1 is waiting"},
      {"Restarting", api::ConditionStatus::kFalse, 1, kNow, "Old", "news"}};
  job.status.failure = api::Failure{"worker", 1, "node-7", 137, "OOMKilled", "last words"};
  EXPECT_EQ(JobDetails(job),
            "Not Running: PodWaiting: mnist-worker-1 is waiting\n"
            "last checkpoint: step 600\n"
            "last failure: worker-1 on node-7, exit code 137, OOMKilled\n"
            "last words\n");
}

}  // namespace
}  // namespace lockstep::cli
