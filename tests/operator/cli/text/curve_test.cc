#include "operator/cli/text/curve.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::cli {
namespace {

CurvePoint PointAt(int second) {
  return {.time = Time(std::chrono::seconds(second)),
          .step = second,
          .loss = 1.0 / (1 + second),
          .examples_per_second = 10};
}

TEST(CurveTest, ManyPointsAreThinnedOutEvenlyAndTheFirstAndTheLastStay) {
  Curve curve;
  for (int i = 0; i <= 100'000; ++i) {
    curve.Add(PointAt(i));
    ASSERT_LE(curve.points().size(), Curve::kMostPoints);
    ASSERT_EQ(i, curve.points().back().step);
  }
  const auto& points = curve.points();
  EXPECT_EQ(0, points.front().step);
  EXPECT_GT(points.size(), Curve::kMostPoints / 4);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_LT(points[i].step - points[i - 1].step, 100'000 / 200) << i;
  }
}

TEST(CurveTest, AStepCountsOnceAndTimeDoesNotGoBack) {
  Curve curve;
  curve.Add(PointAt(5));
  curve.Add(PointAt(5));
  EXPECT_EQ(1U, curve.points().size());
  CurvePoint early = PointAt(4);
  early.time = Time(std::chrono::seconds(6));  // the job goes on from a checkpoint
  curve.Add(early);
  EXPECT_EQ(2U, curve.points().size());
}

TEST(CurveTest, AClockThatIsSetBackDoesNotStopIt) {
  Curve curve;
  curve.Add(PointAt(100));
  for (int i = 0; i < 10'000; ++i) {
    CurvePoint early = PointAt(i + 200);
    early.time = Time(std::chrono::seconds(50));
    curve.Add(early);
    ASSERT_EQ(i + 200, curve.points().back().step);
    ASSERT_EQ(Time(std::chrono::seconds(100)), curve.points().back().time);
    ASSERT_LE(curve.points().size(), Curve::kMostPoints);
  }
  curve.Add(PointAt(20'000));
  EXPECT_EQ(PointAt(20'000), curve.points().back());
}

TEST(CurveTest, WhatIsWrittenIsReadAndTheRestPassedOver) {
  Curve curve;
  curve.Add(PointAt(1));
  curve.Add({.time = Time(std::chrono::milliseconds(2500)),
             .step = 2,
             .loss = std::nullopt,
             .examples_per_second = 7});
  nlohmann::json json = ToJson(curve);
  EXPECT_EQ("[[1000,1,0.5,10.0],[2500,2,null,7.0]]", json.dump());
  json.push_back("x");
  json.push_back({1, 2});
  json.push_back({"a", 1, 2, 3});
  EXPECT_EQ(curve.points(), CurveFromJson(json).points());
  EXPECT_TRUE(CurveFromJson(nullptr).points().empty());
  EXPECT_TRUE(CurveFromJson("text").points().empty());
}

}  // namespace
}  // namespace lockstep::cli
