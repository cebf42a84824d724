// The cases of trainer/check/op_cases.h in sizes that threads share out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/trainer/backend/with_rows.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/check/op_cases.h"

namespace lockstep::train {

// x is not made larger than this for the sake of a far smaller y. The ops that make one of x, pools
// and dense layers, go by x.
inline constexpr std::int64_t kMostFloats = 200'000;

// The case with so many rows, an odd number, that x and y have more than kParallelFloats: an op may
// go by either.
inline OpCase Enlarged(OpCase op_case) {
  const auto oracle = MakeBackend({.name = "reference"});
  const std::int64_t rows = op_case.x[0], of_x = op_case.x.elements() / rows;
  const std::int64_t of_y =
      op_case.Make(*oracle, {.shape = op_case.x})->output().shape.elements() / rows;
  const std::int64_t more =
      std::min(cpu::kParallelFloats / std::min(of_x, of_y) + 1, kMostFloats / of_x);
  return WithRows(std::move(op_case), std::max(rows, more) | 1);
}

inline std::vector<OpCase> LargeCases() {
  std::vector<OpCase> cases;
  for (OpCase& op_case : SmallCases()) cases.push_back(Enlarged(std::move(op_case)));
  return cases;
}

}  // namespace lockstep::train
