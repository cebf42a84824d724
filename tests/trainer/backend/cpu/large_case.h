// The cases of trainer/check/op_cases.h in sizes that threads share out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainer/backend/cpu/parallel.h"
#include "trainer/check/op_cases.h"

namespace lockstep::train {

// The case with so many rows, an odd number, that x is above kParallelFloats; with padding rows, if
// it has some.
inline OpCase Enlarged(OpCase op_case) {
  const std::int64_t rows = op_case.x[0], row = op_case.x.elements() / rows;
  const std::int64_t more = std::max(rows, (3 * cpu::kParallelFloats / (2 * row)) | 1);
  std::vector<std::int64_t> dims = op_case.x.dims();
  dims[0] = more;
  op_case.x = Shape(dims);
  op_case.step.valid = op_case.step.valid == 0 ? more : more - 2;
  return op_case;
}

inline std::vector<OpCase> LargeCases() {
  std::vector<OpCase> cases = SmallCases();
  for (OpCase& op_case : cases) op_case = Enlarged(std::move(op_case));
  return cases;
}

}  // namespace lockstep::train
