// What depends on the number of threads: ops large enough to be shared out, against `reference`,
// and the same bits from every run with the same number.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "tests/trainer/backend/cpu/large_case.h"
#include "tests/trainer/backend/expect_close.h"
#include "tests/trainer/backend/expect_oracle.h"
#include "tests/trainer/backend/laid_out_case.h"
#include "trainer/check/oracle_run.h"
#include "trainer/check/run_op.h"
#include "trainer/check/run_optimizer.h"
#include "trainer/check/run_update.h"

namespace lockstep::train {
namespace {

class ThreadsTest : public ::testing::TestWithParam<LaidOutCase> {};

TEST_P(ThreadsTest, AnyNumberMatchesReferenceAndGivesTheSameBitsAgain) {
  const OracleRun run = AskOracle(GetParam().op_case, InputNumbers::kFloat32);
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    const auto backend = MakeBackend({.name = "cpu", .threads = threads});
    const auto run_new_op = [&] {
      return RunOp(*backend, *GetParam().Make(*backend), run.inputs, run.step);
    };
    const OpOutputs first = run_new_op();
    ExpectTraining(first, run);
    const OpOutputs second = run_new_op();
    EXPECT_EQ(first.y, second.y);
    EXPECT_EQ(first.dx, second.dx);
    EXPECT_EQ(first.gradients, second.gradients);
    EXPECT_EQ(first.states, second.states);
  }
}

INSTANTIATE_TEST_SUITE_P(LargeCases, ThreadsTest, ::testing::ValuesIn(InEveryLayout(LargeCases())),
                         [](const auto& large) { return large.param.Name(); });

TEST(LargeCasesTest, AreSharedOutInOddNumbersOfRows) {
  const auto backend = MakeBackend({.name = "reference"});
  for (const OpCase& large : LargeCases()) {
    const std::int64_t rows = large.x[0], of_x = large.x.elements() / rows;
    const Shape y = large.Make(*backend, {.shape = large.x})->output().shape;
    EXPECT_EQ(rows % 2, 1) << large.name;
    EXPECT_GE(large.x.elements(), cpu::kParallelFloats) << large.name;
    const bool is_largest = large.x.elements() + 2 * of_x > kMostFloats;
    EXPECT_TRUE(is_largest || y.elements() >= cpu::kParallelFloats)
        << large.name << ": y is " << y.ToString();
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

TEST(LargeRangeTest, MuonMatchesReferenceAndGivesTheSameBitsAgain) {
  const MuonSpec spec{.matrices = {{.begin = 5, .rows = 130, .columns = 257},
                                   {.begin = 40'000, .rows = 600, .columns = 100}},
                      .adam = {.weight_decay = 0.1f}};
  const auto run = [&](const std::string& name, int threads) {
    return RunOptimizer(*MakeBackend({.name = name, .threads = threads}), spec, {.size = 100'003})
        .tensors;
  };
  const auto expected = run("reference", 1);
  for (const int threads : {1, 2, 3}) {
    const auto found = run("cpu", threads);
    for (std::size_t i = 0; i < found.size(); ++i)
      ExpectClose(found[i], expected[i], "tensor", 1e-5f);
    EXPECT_EQ(run("cpu", threads), found);
  }
}

}  // namespace
}  // namespace lockstep::train
