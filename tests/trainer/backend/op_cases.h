// Every op in small shapes, the awkward ones among them: what ops_test compares with `reference`,
// and what a back end's own tests look at.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/trainer/backend/op_bench.h"
#include "trainer/backend/backend.h"

namespace lockstep::train {

struct OpCase {
  std::string name;
  Shape x;
  std::function<std::unique_ptr<Op>(Backend&, const TensorDesc& x)> make;
  TestStep step{.training = true, .valid = 0};  // valid 0: all rows
};

// For the names of tests.
inline void PrintTo(const OpCase& op_case, std::ostream* out) {
  *out << op_case.name;
}

std::vector<OpCase> ConvCases();
std::vector<OpCase> OtherCases();

}  // namespace lockstep::train
