// What depends on the number of threads: ops large enough to be shared out, against `reference`,
// and the same bits from every run with the same number.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/trainer/backend/expect_close.h"
#include "trainer/check/run_op.h"
#include "trainer/check/run_optimizer.h"
#include "trainer/check/run_update.h"

namespace lockstep::train {
namespace {

using Make = std::function<std::unique_ptr<Op>(Backend&)>;

struct LargeOp {
  std::string name;
  Make make;
};

// Above cpu/parallel.h's kParallelFloats, with rows that do not divide evenly.
const Shape kImage = {7, 20, 13, 14};

class ThreadsTest : public testing::TestWithParam<LargeOp> {};

OpOutputs RunLarge(const std::string& name, int threads, const Make& make) {
  const auto backend = MakeBackend({.name = name, .threads = threads});
  const auto op = make(*backend);
  const StepSettings step{.training = true, .valid = op->input().shape[0], .step = 3, .seed = 5};
  return RunOp(*backend, *op, RandomInputs(*op, 1), step);
}

TEST_P(ThreadsTest, AnyNumberMatchesReference) {
  const OpOutputs expected = RunLarge("reference", 1, GetParam().make);
  for (const int threads : {1, 2, 3}) {
    const OpOutputs found = RunLarge("cpu", threads, GetParam().make);
    ExpectClose(found.y, expected.y, "y");
    ExpectClose(found.dx, expected.dx, "dx");
    for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
      ExpectClose(found.gradients[i], expected.gradients[i], "gradient");
    }
  }
}

TEST_P(ThreadsTest, TheSameNumberGivesTheSameBits) {
  for (const int threads : {1, 2}) {
    const OpOutputs first = RunLarge("cpu", threads, GetParam().make);
    for (int again = 0; again < 3; ++again) {
      const OpOutputs second = RunLarge("cpu", threads, GetParam().make);
      EXPECT_EQ(first.y, second.y);
      EXPECT_EQ(first.dx, second.dx);
      EXPECT_EQ(first.gradients, second.gradients);
      EXPECT_EQ(first.states, second.states);
    }
  }
}

TEST(NormTest, IsTheSameForAnyNumber) {
  const std::vector<float> values = RandomValues(1'000'003, 1);
  const auto norm = [&values](const std::string& name, int threads) {
    const auto backend = MakeBackend({.name = name, .threads = threads});
    return RunUpdate(*backend, {.gradients = values}).result.gradient_norm;
  };
  const double expected = norm("reference", 1);
  EXPECT_NEAR(expected * expected, 1'000'003 / 3.0, 1000);
  for (const int threads : {1, 2, 3}) EXPECT_EQ(norm("cpu", threads), expected);
}

std::vector<LargeOp> LargeOps() {
  const TensorDesc x{.shape = kImage};
  return {
      {"Conv",
       [x](Backend& b) {
         return b.MakeOp(Conv2dSpec{.x = x,
                                    .filters = 32,
                                    .kernel_h = 5,
                                    .kernel_w = 5,
                                    .padding = Padding::kSame,
                                    .relu = true});
       }},
      {"ConvWinograd",
       [](Backend& b) {
         return b.MakeOp(Conv2dSpec{.x = {.shape = {16, 32, 16, 16}},
                                    .filters = 32,
                                    .kernel_h = 3,
                                    .kernel_w = 3,
                                    .padding = Padding::kSame});
       }},
      {"Dense",
       [](Backend& b) {
         return b.MakeOp(DenseSpec{.x = {.shape = {33, 700}}, .units = 129, .relu = true});
       }},
      {"MaxPool", [x](Backend& b) { return b.MakeOp(Pool2dSpec{.x = x, .relu = true}); }},
      {"MaxPoolOfManyTaps",  // more than a byte can number
       [x](Backend& b) {
         return b.MakeOp(Pool2dSpec{.x = {.shape = {3, 20, 23, 23}},
                                    .window_h = 17,
                                    .window_w = 17,
                                    .stride_h = 3,
                                    .stride_w = 3});
       }},
      {"AveragePool",
       [x](Backend& b) {
         return b.MakeOp(Pool2dSpec{.x = x,
                                    .kind = PoolKind::kAverage,
                                    .window_h = 3,
                                    .window_w = 3,
                                    .padding = Padding::kSame});
       }},
      {"GlobalAveragePool", [x](Backend& b) { return b.MakeOp(GlobalAveragePool2dSpec{.x = x}); }},
      {"Relu",
       [x](Backend& b) {
         return b.MakeOp(ActivationSpec{.x = x, .activation = Activation::kRelu});
       }},
      {"Dropout",
       [x](Backend& b) { return b.MakeOp(DropoutSpec{.x = x, .rate = 0.4f, .layer = 2}); }},
      {"BatchNorm", [x](Backend& b) { return b.MakeOp(BatchNormSpec{.x = x}); }},
      {"LayerNorm", [x](Backend& b) { return b.MakeOp(LayerNormSpec{.x = x}); }},
      {"LayerNormOfRows",
       [](Backend& b) { return b.MakeOp(LayerNormSpec{.x = {.shape = {131, 200}}}); }},
  };
}

INSTANTIATE_TEST_SUITE_P(LargeOps, ThreadsTest, testing::ValuesIn(LargeOps()),
                         [](const auto& large) { return large.param.name; });

TEST(LargeRangeTest, AdamOfALargeRangeMatchesReference) {
  constexpr std::int64_t kSize = 50021;
  const auto run = [](const std::string& name, int threads) {
    const auto backend = MakeBackend({.name = name, .threads = threads});
    const auto adam = backend->MakeOptimizer(AdamSpec{.weight_decay = 0.1f});
    std::vector<float> value = RandomValues(kSize, 1), gradient = RandomValues(kSize, 2);
    std::vector<float> m(value.size()), v(value.size());
    OptimizerStep settings{.learning_rate = 0.01f};
    adam->Bind(
        {.values = value.data(),
         .gradients = gradient.data(),
         .slots = {m.data(), v.data()},
         .size = kSize,
         .segments = {{.begin = 0, .end = 20001, .decays = false}, {.begin = 20001, .end = kSize}},
         .step = &settings});
    for (; settings.step <= 3; ++settings.step) adam->Step();
    return value;
  };
  const std::vector<float> expected = run("reference", 1);
  for (const int threads : {1, 2, 3}) {
    ExpectClose(run("cpu", threads), expected, "value");
  }
  EXPECT_EQ(run("cpu", 1), run("cpu", 3)) << "elementwise: threads do not change a bit";
}

// The trusts are sums over a tensor, and replicas with any number of threads must agree.
TEST(LargeRangeTest, ThreadsDoNotChangeABitOfATrust) {
  for (const OptimizerRule& rule : std::vector<OptimizerRule>{
           LarsSpec{.momentum = 0.9f, .weight_decay = 0.1f}, LambSpec{.weight_decay = 0.1f}}) {
    const auto run = [&](int threads) {
      return RunOptimizer(*MakeBackend({.threads = threads}), rule, {.size = 100'003}).tensors;
    };
    const auto expected = run(1);
    for (const int threads : {2, 3}) EXPECT_EQ(run(threads), expected) << rule.index();
  }
}

}  // namespace
}  // namespace lockstep::train
