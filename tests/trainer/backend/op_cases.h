// Every op in small shapes, the awkward ones among them: what ops_test compares with `reference`,
// and what a back end's own tests look at.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

struct OpCase {
  std::string name;
  Shape x;
  std::function<std::unique_ptr<Op>(Backend&, const TensorDesc& x)> make;
  StepContext step{.training = true, .valid = 0};  // valid 0: all rows
};

std::vector<OpCase> ConvCases();
std::vector<OpCase> OtherCases();

}  // namespace lockstep::train
