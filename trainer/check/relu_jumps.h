// Comparisons of gradients of ops with a relu of their own.
#pragma once

#include "trainer/backend/backend.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {

// Sets dy to 0 where the relu's input is closer to 0 than `near` times the largest input, or `near`
// if none is larger than 1. There the sign, and so the derivative, depends on the order of sums
// and, in 16 bits, on a rounding before the bias is added. No-op for an op without a relu.
void ZeroGradientNearJumps(OpSpec spec, const StepSettings& step, float near, OpInputs& inputs);

}  // namespace lockstep::train
