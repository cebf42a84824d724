// A case with more rows or fewer.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/check/op_cases.h"

namespace lockstep::train {

// The case with `rows` rows, of which as many are padding as before. Requires: at least one is not.
inline OpCase WithRows(OpCase op_case, std::int64_t rows) {
  if (op_case.step.valid != 0) op_case.step.valid += rows - op_case.x[0];
  std::vector<std::int64_t> dims = op_case.x.dims();
  dims[0] = rows;
  op_case.x = Shape(std::move(dims));
  return op_case;
}

}  // namespace lockstep::train
