#include "operator/progress/report_json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::progress {
namespace {

using controller::ProgressReport;
using ::testing::HasSubstr;

ProgressReport Read(const std::string& status) {
  const auto report = ReadReport("{\"trainerStatus\":" + status + "}");
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(ProgressReport());
}

ProgressReport WithMetric(const std::string& name, const std::string& value) {
  return Read(fmt::format(R"({{"metrics":[{{"name":"{}","value":"{}"}}]}})", name, value));
}

TEST(ReadReportTest, WhatHuggingFacesCallbackSendsIsUnderstood) {
  const ProgressReport report = Read(
      R"({"lastUpdatedTime":"2026-01-02T03:04:05.6+00:00","progressPercentage":42,
          "estimatedRemainingSeconds":123,"metrics":[
            {"name":"loss","value":"0.5"},{"name":"grad_norm","value":"1.5"},
            {"name":"learning_rate","value":"5e-05"},{"name":"epoch","value":"1.25"},
            {"name":"eval_loss","value":"0.75"},{"name":"eval_accuracy","value":"0.9"},
            {"name":"train_samples_per_second","value":"31.5"},
            {"name":"current_step","value":"210"},{"name":"total_steps","value":"500"},
            {"name":"current_epoch","value":"1.25"}]})");
  ProgressReport expected{.percentage = 42,
                          .remaining_seconds = 123,
                          .epoch = 1.25,
                          .loss = 0.5,
                          .test_loss = 0.75,
                          .test_accuracy = 0.9,
                          .examples_per_second = 31.5,
                          .step = 210,
                          .total_steps = 500,
                          .digest = report.digest};
  EXPECT_EQ(report, expected);
}

TEST(ReadReportTest, NamesAreKnownHoweverTheyAreSpelled) {
  for (const char* name : {"currentStep", "current_step", "step", "global_step", "Current-Step"}) {
    EXPECT_EQ(WithMetric(name, "7").step, 7) << name;
  }
  for (const char* name : {"eval_loss", "eval/loss", "val_loss", "testLoss"}) {
    EXPECT_EQ(WithMetric(name, "0.5").test_loss, 0.5) << name;
  }
}

TEST(ReadReportTest, ValuesThatAreNoNumbersOrOutOfRangeAreLeftOut) {
  for (const char* value : {"nan", "inf", "-inf", "", "0.5x", " 0.5", "1e999", "0x10"}) {
    EXPECT_FALSE(WithMetric("loss", value).loss) << value;
  }
  for (const char* value : {"-1", "1e300", "nan", "9007199254740993"}) {
    EXPECT_FALSE(WithMetric("step", value).step) << value;
  }
  EXPECT_EQ(WithMetric("step", "12.0").step, 12);
  EXPECT_EQ(WithMetric("loss", "-0.5").loss, -0.5);
  EXPECT_FALSE(WithMetric("epoch", "-1").epoch);
  EXPECT_EQ(Read(R"({"metrics":[{"name":"loss","value":0.25}]})").loss, 0.25) << "a number";
}

TEST(ReadReportTest, AWholeNumberMayHaveAPoint) {
  const ProgressReport report =
      Read(R"({"progressPercentage":42.0,"estimatedRemainingSeconds":1e3})");
  EXPECT_EQ(report.percentage, 42);
  EXPECT_EQ(report.remaining_seconds, 1000);
}

TEST(ReadReportTest, ReportsThatSayMoreDifferInTheirDigest) {
  const auto digest = [](const std::string& status) { return Read(status).digest; };
  const std::string same = R"({"progressPercentage":1,"metrics":[{"name":"x","value":"1"}]})";
  EXPECT_EQ(digest(same), digest(R"({"progressPercentage":1,"estimatedRemainingSeconds":9,
                       "lastUpdatedTime":"later","metrics":[{"name":"x","value":"1"}]})"));
  EXPECT_NE(digest(same),
            digest(R"({"progressPercentage":2,"metrics":[{"name":"x","value":"1"}]})"));
  EXPECT_NE(digest(same),
            digest(R"({"progressPercentage":1,"metrics":[{"name":"x","value":"2"}]})"));
}

TEST(ReadReportTest, WhatIsNoReportIsRefusedInWords) {
  std::string many = R"({"trainerStatus":{"metrics":[)";
  for (int i = 0; i < 257; ++i) many += R"({"name":"x","value":"1"},)";
  many.back() = ']';
  const std::pair<std::string, const char*> cases[] = {
      {"", "found no JSON"},
      {"[]", "found a list, expected an object"},
      {"{}", "trainerStatus: found nothing, expected an object"},
      {R"({"trainerStatus":7})", "trainerStatus: found 7"},
      {R"({"trainerStatus":{"progressPercentage":101}})", "trainerStatus.progressPercentage"},
      {R"({"trainerStatus":{"progressPercentage":42.5}})", "progressPercentage: found 42.5"},
      {R"({"trainerStatus":{"progressPercentage":1e300}})", "trainerStatus.progressPercentage"},
      {R"({"trainerStatus":{"progressPercentage":"1"}})", "trainerStatus.progressPercentage"},
      {R"({"trainerStatus":{"estimatedRemainingSeconds":-1}})", "estimatedRemainingSeconds"},
      {R"({"trainerStatus":{"metrics":{}}})", "expected a list of at most 256 metrics"},
      {R"({"trainerStatus":{"metrics":[{"name":"x"}]}})", "the texts `name` and `value`"},
      {R"({"trainerStatus":{"metrics":[{"name":"x","value":{}}]}})", "the texts"},
      {many + "}}", "expected a list of at most 256 metrics"},
      {std::string(9, '[') + std::string(9, ']'), "at most 8 levels"}};
  for (const auto& [text, fault] : cases) {
    const auto report = ReadReport(text);
    ASSERT_FALSE(report.ok()) << text;
    EXPECT_THAT(std::string(report.status().message()), HasSubstr(fault)) << text;
  }
}

TEST(ReadReportTest, AnEmptyReportIsOne) {
  EXPECT_EQ(Read("{}"), (ProgressReport{.digest = Read("{}").digest}));
}

}  // namespace
}  // namespace lockstep::progress
