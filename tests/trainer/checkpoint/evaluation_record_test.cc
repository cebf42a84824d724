#include "trainer/checkpoint/evaluation_record.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/fault_file_system.h"

namespace lockstep::train {
namespace {

class EvaluationRecordTest : public ::testing::Test {
 protected:
  EvaluationRecordTest() { EXPECT_TRUE(files_.CreateDirectories("/ckpt").ok()); }
  std::optional<EvaluationRecord> Read(const std::string& job_uid = "uid-a") {
    const auto record = ReadEvaluationRecord(files_, "/ckpt", job_uid);
    EXPECT_TRUE(record.ok()) << record.status();
    return *record;
  }
  absl::Status Write(std::int64_t step, double loss = 0.5) {
    return WriteEvaluationRecord(
        files_, "/ckpt",
        {.job_uid = "uid-a", .step = step, .loss = loss, .metric = 0.75, .skipped = 2});
  }

  FaultFileSystem files_;
};

TEST_F(EvaluationRecordTest, WhatIsWrittenIsRead) {
  EXPECT_FALSE(Read().has_value());
  ASSERT_TRUE(Write(10).ok());
  ASSERT_TRUE(Write(20).ok());
  const auto record = Read();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->step, 20);
  EXPECT_EQ(record->loss, 0.5);
  EXPECT_EQ(record->metric, 0.75);
  EXPECT_EQ(record->skipped, 2);
}

TEST_F(EvaluationRecordTest, NamedMetricsAreReadByName) {
  const api::TestMetrics metrics = {{api::TestMetric::kAuc, 0.875}, {api::TestMetric::kRecall, 0}};
  ASSERT_TRUE(WriteEvaluationRecord(files_, "/ckpt",
                                    {.job_uid = "uid-a", .step = 1, .metrics = metrics, .top_k = 3})
                  .ok());
  EXPECT_EQ(Read()->metrics, metrics);
  EXPECT_EQ(Read()->top_k, 3);
  ASSERT_TRUE(Write(2).ok());
  EXPECT_TRUE(Read()->metrics.empty());
}

TEST_F(EvaluationRecordTest, ALossThatIsNotANumberStaysOne) {
  ASSERT_TRUE(Write(10, std::nan("")).ok());
  EXPECT_TRUE(std::isnan(Read()->loss));
}

TEST_F(EvaluationRecordTest, AnotherJobsRecordDoesNotCount) {
  ASSERT_TRUE(Write(10).ok());
  EXPECT_FALSE(Read("uid-b").has_value());
}

// A process that was given up as lost may live on, and one that could not read the record may begin
// again.
TEST_F(EvaluationRecordTest, AnEarlierStepReplacesNone) {
  ASSERT_TRUE(Write(20).ok());
  ASSERT_TRUE(Write(10).ok());
  EXPECT_EQ(Read()->step, 20);
  ASSERT_TRUE(WriteEvaluationRecord(files_, "/ckpt", {.job_uid = "uid-b", .step = 5}).ok());
  EXPECT_EQ(Read("uid-b")->step, 5) << "another job begins anew";
  ASSERT_TRUE(
      WriteEvaluationRecord(files_, "/ckpt", {.job_uid = "uid-b", .test_set = "new", .step = 4})
          .ok());
  EXPECT_EQ(Read("uid-b")->step, 4) << "so does one with another test set";
  EXPECT_EQ(Read("uid-b")->test_set, "new");
}

TEST_F(EvaluationRecordTest, ADamagedRecordDoesNotCount) {
  ASSERT_TRUE(Write(10).ok());
  files_.Content("/ckpt/evaluation.json").resize(20);
  EXPECT_FALSE(Read().has_value());
}

TEST_F(EvaluationRecordTest, NeitherDoesOneThatIsTooLargeToBeRead) {
  ASSERT_TRUE(Write(10).ok());
  files_.Content("/ckpt/evaluation.json").resize(kMostJsonBytes + 1, ' ');
  EXPECT_FALSE(Read().has_value());
}

TEST_F(EvaluationRecordTest, ACrashLeavesTheOldOneOrTheNewOne) {
  for (int n = 1; n <= 3; ++n) {
    ASSERT_TRUE(Write(10).ok());
    files_.CrashInOperation(n);
    EXPECT_FALSE(Write(20).ok());
    files_.Reboot(FaultFileSystem::kKeepAll);
    const auto record = Read();
    ASSERT_TRUE(record.has_value()) << n;
    EXPECT_EQ(record->step, n == 1 ? 10 : 20);
  }
}

}  // namespace
}  // namespace lockstep::train
