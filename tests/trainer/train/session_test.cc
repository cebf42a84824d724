#include "trainer/train/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

using ::testing::StartsWith;

std::string FingerprintOf(const api::TrainingSpec& training) {
  return (*Session::Create({.training = training, .backend = "reference"}))->Fingerprint();
}

TEST(SessionTest, TheFingerprintTellsWhichDataThisRankSees) {
  api::TrainingSpec training = SmallTraining();
  EXPECT_THAT(
      FingerprintOf(training),
      StartsWith("trainSamples=70;testSamples=33;sample=uint8 [1,8,8];classes=3;conv2d/weight["));
  training.dataset.synthetic->train_examples = 69;
  training.evaluation.enabled = false;
  EXPECT_THAT(FingerprintOf(training),
              StartsWith("trainSamples=69;testSamples=0;sample=uint8 [1,8,8];classes=3;"));
}

}  // namespace
}  // namespace lockstep::train
