// What people want to know of an op besides its shapes. Pure.
#pragma once

#include <string>

#include "trainer/backend/op_spec.h"

namespace lockstep::train {

struct OpFacts {
  // As in `layers`: "Conv2D"; with what is fused into it: "ZeroPadding2D + Conv2D + ReLU".
  std::string type = "Cast";
  // Floating-point operations of a pass over the op's rows. Those of convolutions and dense layers
  // alone, where nearly all are: an addition and a multiplication for each weight and output that
  // it is used for, padding included, and none for biases. Whole numbers, exact up to 2^53; two
  // tensors of the largest size make more than an integer of 64 bits holds.
  double forward_flops = 0, backward_flops = 0;
};

// `y` is the shape of the op's output.
OpFacts FactsOf(const OpSpec& spec, const Shape& y);

}  // namespace lockstep::train
