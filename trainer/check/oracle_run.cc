#include "trainer/check/oracle_run.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include "base/check.h"
#include "trainer/check/relu_jumps.h"
#include "trainer/core/half.h"

namespace lockstep::train {
namespace {

float Rounded(float value, InputNumbers numbers) {
  switch (numbers) {
    case InputNumbers::kFloat32:
      return value;
    case InputNumbers::kTF32:  // has all numbers of float16
    case InputNumbers::kFloat16:
      return FromFloat16(ToFloat16(value));
    case InputNumbers::kShort:
      return FromFloat16(ToFloat16(FromBFloat16(ToBFloat16(value))));
  }
  LOCKSTEP_CHECK(false, "oracle: {} are no numbers", static_cast<int>(numbers));
}

// The rounding of sums, relative to the largest, in the widest type whose numbers they are.
float RoundingOf(InputNumbers numbers) {
  constexpr float kEpsilonOfBFloat16 = 0x1p-7f, kEpsilonOfFloat16 = 0x1p-10f;
  switch (numbers) {
    case InputNumbers::kFloat32:
    case InputNumbers::kTF32:
      return 1e-4f;
    case InputNumbers::kFloat16:
      return kEpsilonOfFloat16;
    case InputNumbers::kShort:
      return kEpsilonOfBFloat16;
  }
  LOCKSTEP_CHECK(false, "oracle: {} are no numbers", static_cast<int>(numbers));
}

void RoundAll(InputNumbers numbers, OpInputs& inputs) {
  const auto round = [numbers](std::vector<float>& values) {
    for (float& value : values) value = Rounded(value, numbers);
  };
  round(inputs.x);
  round(inputs.dy);
  std::ranges::for_each(inputs.parameters, round);
}

bool DiffersInEvaluation(const OpSpec& spec) {
  return std::visit([](const auto& op) { return op.kDiffersInEvaluation; }, spec);
}

}  // namespace

OracleRun AskOracle(const OpCase& op_case, InputNumbers numbers) {
  const auto oracle = MakeBackend({.name = "reference"});
  const OpSpec spec = op_case.spec({.shape = op_case.x});
  const auto op = oracle->MakeOp(spec);
  OracleRun run{.step = op_case.step, .inputs = RandomInputs(*op, 1), .output = op->output().shape};
  if (run.step.valid == 0) run.step.valid = op_case.x[0];
  RoundAll(numbers, run.inputs);
  // The gradient of padding rows is zero, as the loss makes it.
  const std::int64_t row = run.output.elements() / op_case.x[0];
  std::fill(run.inputs.dy.begin() + run.step.valid * row, run.inputs.dy.end(), 0.0f);
  ZeroGradientNearJumps(spec, run.step, RoundingOf(numbers), run.inputs);
  run.training = RunOp(*oracle, *op, run.inputs, run.step);
  if (DiffersInEvaluation(spec)) {
    StepSettings evaluation = run.step;
    evaluation.training = false;
    run.evaluation = RunOp(*oracle, *op, run.inputs, evaluation).y;
  } else {
    run.evaluation = run.training.y;
  }
  return run;
}

}  // namespace lockstep::train
