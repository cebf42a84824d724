#include "trainer/check/check_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CheckReport Report() {
  return {.backend = "cuda",
          .device = "cuda:simulated",
          .facts = {{"driver", "for CUDA 13.0"}},
          .groups = {{.name = "Conv2D",
                      .type = "float32",
                      .tolerance = 1e-5,
                      .cases = 12,
                      .worst = 2e-6,
                      .worst_case = "Odd"},
                     {.name = "Dense", .type = "float16", .tolerance = 1e-3, .cases = 3}},
          .measurements =
              {{.name = "copy", .value = 2000, .unit = "GB/s", .note = "512 MiB"},
               {.name = "resnet-50", .type = "float32", .unit = "steps/s", .note = "no memory"}},
          .seconds = 4};
}

CheckReport WithFaults(int count) {
  CheckReport report = Report();
  report.groups[1].worst = std::numeric_limits<double>::infinity();
  for (int i = 0; i < count; ++i) {
    report.groups[1].faults.push_back({"Odd", "[1,2], dense", "y[0] is nan, expected 1"});
  }
  return report;
}

TEST(ReportTableTest, HasALineForEachGroupAndMeasurement) {
  EXPECT_EQ(ReportTable(Report()), R"(device: cuda:simulated
driver: for CUDA 13.0

result check  type    cases tolerance worst error
ok     Conv2D float32 12    1.0e-05       2.0e-06
ok     Dense  float16 3     1.0e-03       0.0e+00

benchmark type    of        unit    speed
copy              512 MiB   GB/s     2000
resnet-50 float32 no memory steps/s     -

ok: 15 cases in 4.0 s
)");
}

TEST(ReportTableTest, NamesWhatFailedAndHowMuchMore) {
  const std::string table = ReportTable(WithFaults(7));
  EXPECT_THAT(table, HasSubstr("\nFAILED Dense  float16 3     1.0e-03           inf\n"));
  EXPECT_THAT(table,
              HasSubstr("\nFAILED Dense float16: Odd [1,2], dense: y[0] is nan, expected 1"));
  EXPECT_THAT(table, HasSubstr("\nFAILED Dense float16: and 2 more\n"));
  EXPECT_THAT(table, HasSubstr("\nFAILED: 7 faults in 15 cases, in 4.0 s\n"));
  EXPECT_THAT(ReportTable(WithFaults(5)), Not(HasSubstr("more")));
}

TEST(ReportTableTest, NamesTheBenchmarksThatFailed) {
  CheckReport report = WithFaults(0);
  report.measurements[1].note = "an illegal address";
  report.measurements[1].has_failed = true;
  const std::string table = ReportTable(report);
  EXPECT_THAT(table, HasSubstr("\nFAILED resnet-50 float32 in steps/s: an illegal address\n"));
  EXPECT_THAT(table, HasSubstr("\nFAILED: 0 faults in 15 cases and 1 measurements, in 4.0 s\n"));
  const auto json = ReportJson(report);
  EXPECT_EQ(json.at("ok"), false);
  EXPECT_EQ(json.at("benchmarks").at(0).at("ok"), true);
  EXPECT_EQ(json.at("benchmarks").at(1).at("ok"), false);
}

TEST(ReportJsonTest, HasEveryFault) {
  const auto json = ReportJson(WithFaults(7));
  EXPECT_EQ(json.at("ok"), false);
  EXPECT_EQ(json.at("facts").at("driver"), "for CUDA 13.0");
  const auto& dense = json.at("checks").at(1);
  EXPECT_EQ(dense.at("name"), "Dense");
  EXPECT_EQ(dense.at("type"), "float16");
  EXPECT_EQ(dense.at("cases"), 3);
  EXPECT_EQ(dense.at("ok"), false);
  EXPECT_TRUE(dense.at("worst_error").is_null());
  EXPECT_EQ(dense.at("faults").size(), 7u);
  EXPECT_EQ(dense.at("faults").at(0).at("case"), "Odd");
  EXPECT_EQ(dense.at("faults").at(0).at("input"), "[1,2], dense");
  EXPECT_EQ(dense.at("faults").at(0).at("problem"), "y[0] is nan, expected 1");
  EXPECT_EQ(json.at("checks").at(0).at("worst_error"), 2e-6);
}

TEST(ReportJsonTest, HasNoValueForWhatWasNotMeasured) {
  const auto json = ReportJson(Report());
  EXPECT_EQ(json.at("ok"), true);
  EXPECT_EQ(json.at("benchmarks").at(0).at("value"), 2000);
  EXPECT_TRUE(json.at("benchmarks").at(0).at("type").is_null());
  EXPECT_TRUE(json.at("benchmarks").at(1).at("value").is_null());
  EXPECT_EQ(json.at("benchmarks").at(1).at("note"), "no memory");
  EXPECT_EQ(json.at("benchmarks").at(1).at("ok"), true);
}

}  // namespace
}  // namespace lockstep::train
