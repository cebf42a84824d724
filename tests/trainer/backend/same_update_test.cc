// Replicas on different back ends train one model together, and share its parameters only when a
// generation begins. So the optimizers of all back ends must give the same bits.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "trainer/check/run_optimizer.h"

namespace lockstep::train {
namespace {

class SameUpdateTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Compares 20 steps to the bit.
  void ExpectSameBits(const OptimizerRule& rule) {
    for (const bool in_segments : {false, true}) {
      const OptimizerRun run{.size = 1'003, .in_segments = in_segments};
      EXPECT_EQ(RunOptimizer(*tested_, rule, run).tensors, RunOptimizer(*cpu_, rule, run).tensors)
          << (in_segments ? "in segments" : "one segment");
    }
  }

  const std::unique_ptr<Backend> tested_ = MakeBackend({.name = GetParam(), .threads = 2});
  const std::unique_ptr<Backend> cpu_ = MakeBackend({.name = "cpu", .threads = 2});
};

TEST_P(SameUpdateTest, OfSgd) {
  ExpectSameBits(SgdSpec{.weight_decay = 0.01f});
  ExpectSameBits(SgdSpec{.momentum = 0.9f, .weight_decay = 0.01f});
  ExpectSameBits(SgdSpec{.momentum = 0.9f, .nesterov = true});
  ExpectSameBits(SgdSpec{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f});
}

TEST_P(SameUpdateTest, OfAdam) {
  ExpectSameBits(AdamSpec{.beta1 = 0.8f});
  ExpectSameBits(AdamSpec{.beta1 = 0.8f, .weight_decay = 0.01f});
}

TEST_P(SameUpdateTest, OfRmsprop) {
  ExpectSameBits(RmspropSpec{.weight_decay = 0.01f});
  ExpectSameBits(RmspropSpec{.momentum = 0.8f, .weight_decay = 0.01f});
}

TEST_P(SameUpdateTest, OfAdagrad) {
  ExpectSameBits(AdagradSpec{.epsilon = 1e-3f, .weight_decay = 0.01f});
}

TEST_P(SameUpdateTest, OfLars) {
  ExpectSameBits(LarsSpec{.weight_decay = 0.01f});
  ExpectSameBits(LarsSpec{.momentum = 0.9f, .weight_decay = 0.01f});
  ExpectSameBits(LarsSpec{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f});
}

TEST_P(SameUpdateTest, OfLamb) {
  ExpectSameBits(LambSpec{.beta1 = 0.8f});
  ExpectSameBits(LambSpec{.beta1 = 0.8f, .weight_decay = 0.1f});
}

INSTANTIATE_TEST_SUITE_P(Backends, SameUpdateTest, ::testing::ValuesIn(kBackendsUnderTest),
                         [](const auto& backend) { return TestName(backend.param); });

}  // namespace
}  // namespace lockstep::train
