// Every op of the 16-bit types on every back end against the float32 op on `reference`, which gets
// the same rounded numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/backend/expect_oracle.h"
#include "trainer/check/device_array.h"
#include "trainer/check/op_cases.h"
#include "trainer/check/oracle_run.h"
#include "trainer/check/run_op.h"
#include "trainer/core/half.h"

namespace lockstep::train {
namespace {

float Rounded(float value, DType type) {
  return type == DType::kBFloat16 ? FromBFloat16(ToBFloat16(value)) : FromFloat16(ToFloat16(value));
}
void Round(std::vector<float>& values, DType type) {
  for (float& value : values) value = Rounded(value, type);
}

// The distance between 1 and the next number.
float Epsilon(DType type) {
  return type == DType::kBFloat16 ? 0x1p-7f : 0x1p-10f;
}

using OpParam = std::tuple<std::string, OpCase, DType>;

class LowPrecisionOpsTest : public ::testing::TestWithParam<OpParam> {};

TEST_P(LowPrecisionOpsTest, MatchesFloat32OfTheSameNumbers) {
  const auto& [name, op_case, type] = GetParam();
  const auto backend = MakeBackend({.name = name, .threads = 2});
  const auto op = op_case.Make(*backend, {.shape = op_case.x, .dtype = type});
  const OracleRun run =
      AskOracle(op_case, type == DType::kBFloat16 ? InputNumbers::kShort : InputNumbers::kFloat16);
  EXPECT_EQ(op->output().shape, run.output);
  EXPECT_EQ(op->output().dtype, type);
  const OpOutputs found = RunOp(*backend, *op, run.inputs, run.step);
  // Within a rounding of each factor and of the result.
  ExpectTraining(found, run, 2 * Epsilon(type));
  for (const float value : found.y) ASSERT_EQ(value, Rounded(value, type));
}

// A matrix that float32 holds exactly and the type does not: the op must use it rounded.
TEST(LowPrecisionTest, AMatrixIsRoundedAndAVectorIsNot) {
  for (const std::string& name : BackendNames()) {
    const auto backend = MakeBackend({.name = name});
    const auto op =
        backend->MakeOp(DenseSpec{.x = {.shape = {1, 1}, .dtype = DType::kFloat16}, .units = 1});
    const float bias = 0x1p-13f, weight = 1 + 0x1p-12f;
    const OpOutputs found =
        RunOp(*backend, *op, {.x = {0x1p-13f}, .dy = {1}, .parameters = {{weight}, {bias}}},
              {.training = true, .valid = 1});
    EXPECT_EQ(found.y, std::vector{0x1p-12f}) << name;
    EXPECT_EQ(found.dx, std::vector{1.0f}) << name;
  }
}

TEST(LowPrecisionTest, CastsBothWays) {
  for (const std::string& name : BackendNames()) {
    const auto backend = MakeBackend({.name = name, .threads = 2});
    for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
      const auto narrow = backend->MakeCast({.shape = {7, 9}}, type);
      const auto wide = backend->MakeCast(narrow->output(), DType::kFloat32);
      OpInputs inputs = RandomInputs(*narrow, 1);
      const StepSettings step{.training = true, .valid = 7};
      const OpOutputs narrowed = RunOp(*backend, *narrow, inputs, step);
      Round(inputs.x, type);
      EXPECT_EQ(narrowed.y, inputs.x) << name;
      Round(inputs.dy, type);  // it came as such
      EXPECT_EQ(narrowed.dx, inputs.dy) << name;
      const OpOutputs widened = RunOp(*backend, *wide, inputs, step);
      EXPECT_EQ(widened.y, inputs.x) << name;
      EXPECT_EQ(widened.dx, inputs.dy) << name;
    }
  }
}

TEST(LowPrecisionTest, AccumulatesInItsType) {
  for (const std::string& name : BackendNames()) {
    const auto backend = MakeBackend({.name = name, .threads = 2});
    const std::vector<std::uint16_t> ones(3001, ToBFloat16(1)), small(3001, ToBFloat16(0x1p-7f));
    const DeviceArray<std::uint16_t> x(*backend, small), y(*backend, ones);
    backend->Accumulate(x.data(), y.data(), 3001, DType::kBFloat16);
    backend->Accumulate(x.data(), y.data(), 3000, DType::kBFloat16);
    const std::vector<std::uint16_t> sums = y.Values();
    EXPECT_EQ(sums.front(), ToBFloat16(1 + 0x1p-6f)) << name;
    EXPECT_EQ(sums[2999], ToBFloat16(1 + 0x1p-6f)) << name;
    EXPECT_EQ(sums.back(), ToBFloat16(1 + 0x1p-7f)) << name;
  }
}

std::string NameOfParam(const ::testing::TestParamInfo<OpParam>& param) {
  const auto& [name, op_case, type] = param.param;
  std::string text = name + "_" + op_case.name + "_" + std::string(DTypeName(type));
  std::ranges::replace(text, '-', '_');
  return text;
}

const auto kTypes = ::testing::Values(DType::kBFloat16, DType::kFloat16);
INSTANTIATE_TEST_SUITE_P(SmallCases, LowPrecisionOpsTest,
                         ::testing::Combine(::testing::ValuesIn(kBackendsUnderTest),
                                            ::testing::ValuesIn(SmallCases()), kTypes),
                         NameOfParam);

}  // namespace
}  // namespace lockstep::train
