// What `reference` gives for a case: what the back ends that are checked are given, and must give.
#pragma once

#include <vector>

#include "trainer/check/op_cases.h"
#include "trainer/check/run_op.h"
#include "trainer/core/shape.h"

namespace lockstep::train {

// Which numbers a case's inputs are.
enum class InputNumbers {
  kFloat32,
  kTF32,     // with 10 bits after the point
  kFloat16,  // that float16 has, too
  kShort,    // that bfloat16 and float16 have, too
};

struct OracleRun {
  StepSettings step;
  OpInputs inputs;
  OpOutputs training;
  std::vector<float> evaluation;  // y
  Shape output;                   // of y
};

// The gradient of y is 0 where a relu's derivative may jump within a rounding of the numbers.
// Thread-safe.
OracleRun AskOracle(const OpCase& op_case, InputNumbers numbers);

}  // namespace lockstep::train
