#include "api/v1/progress_json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::api {
namespace {

TEST(ProgressJsonTest, ComesBackAsItWas) {
  Progress progress;
  progress.step = 938;
  progress.total_steps = 938;
  progress.epoch = 2;
  progress.loss = 0.03125;
  progress.test_accuracy = 0.98828125;
  progress.examples_per_second = 1234.5;
  progress.last_checkpoint_step = 938;
  progress.samples_lost = 3;
  EXPECT_EQ(ProgressFromMessage(ProgressToJson(progress).dump()), progress);
}

TEST(ProgressJsonTest, WhatJsonCannotHoldIsLeftOut) {
  Progress progress;
  progress.step = 1;
  progress.loss = std::nan("");
  const auto read = ProgressFromMessage(ProgressToJson(progress).dump());
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->loss.has_value());
}

TEST(ProgressJsonTest, AFieldOfANewerTrainerIsPassedOver) {
  const auto read = ProgressFromMessage(R"({"step":3,"somethingNew":[1]})");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->step, 3);
}

TEST(ProgressJsonTest, WhatAStatusCannotHoldIsNone) {
  for (const char* message :
       {R"({"step":-1})", R"({"step":1,"totalSteps":-1})", R"({"step":1,"epoch":-0.5})",
        R"({"step":1,"lastCheckpointStep":-2})", R"({"step":9007199254740993})", R"({"step":1e3})",
        R"({"step":1,"samplesLost":-1})", R"({"step":1,"samplesDuplicated":-1})",
        R"({"step":1,"updateTime":"1969-12-31T23:59:59Z"})"}) {
    EXPECT_FALSE(ProgressFromMessage(message).has_value()) << message;
  }
  EXPECT_TRUE(ProgressFromMessage(R"({"step":0,"lastCheckpointStep":-1})").has_value());
}

TEST(ProgressJsonTest, OtherMessagesAreNone) {
  for (const char* message : {"", "Traceback: {\"step\":1}", "{", "{}", "[1]", "{\"step\":\"x\"}",
                              "{\"epoch\":1}", "{\"step\":1} trailing"}) {
    EXPECT_FALSE(ProgressFromMessage(message).has_value()) << message;
  }
}

}  // namespace
}  // namespace lockstep::api
