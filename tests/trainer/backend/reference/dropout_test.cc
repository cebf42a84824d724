#include <gtest/gtest.h>

#include <algorithm>

#include "trainer/check/run_op.h"

namespace lockstep::train {
namespace {

class DropoutTest : public ::testing::Test {
 protected:
  std::vector<float> Mask(std::int64_t rows, const StepSettings& step, std::uint64_t layer = 0) {
    const auto op =
        backend_->MakeOp(DropoutSpec{.x = {.shape = {rows, 1000}}, .rate = 0.25f, .layer = layer});
    const std::vector<float> ones(static_cast<std::size_t>(rows * 1000), 1.0f);
    return RunOp(*backend_, *op, {.x = ones, .dy = ones, .parameters = {}, .states = {}}, step).y;
  }

  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "reference"});
};

TEST_F(DropoutTest, DropsItsShareAndKeepsTheMean) {
  const std::vector<float> mask = Mask(10, {.valid = 10, .seed = 1});
  const auto dropped = std::count(mask.begin(), mask.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 4 * 43.3) << "four standard deviations";
  EXPECT_EQ(dropped + std::count(mask.begin(), mask.end(), 1.0f / 0.75f), 10000);
}

TEST_F(DropoutTest, ARowDropsTheSameWhereverItLies) {
  const std::vector<float> all = Mask(4, {.valid = 4, .seed = 1, .first_position = 100});
  const std::vector<float> tail = Mask(2, {.valid = 2, .seed = 1, .first_position = 102});
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.begin() + 2000));
}

TEST_F(DropoutTest, StepSeedLayerAndRowChangeTheMask) {
  const StepSettings step{.valid = 1, .step = 1, .seed = 1};
  const std::vector<float> mask = Mask(1, step);
  EXPECT_EQ(Mask(1, step), mask);
  EXPECT_NE(Mask(1, {.valid = 1, .step = 2, .seed = 1}), mask);
  EXPECT_NE(Mask(1, {.valid = 1, .step = 1, .seed = 2}), mask);
  EXPECT_NE(Mask(1, {.valid = 1, .step = 1, .seed = 1, .first_position = 1}), mask);
  EXPECT_NE(Mask(1, step, 1), mask);
}

TEST_F(DropoutTest, EvaluationIsTheIdentity) {
  EXPECT_EQ(Mask(2, {.training = false, .valid = 2}), std::vector<float>(2000, 1.0f));
}

}  // namespace
}  // namespace lockstep::train
