// Comparisons of gradients of ops with a relu of their own.
#pragma once

#include "trainer/backend/backend.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {

// The derivative of a fused relu jumps at 0, where sums in another order may have another sign, and
// so may what a 16-bit type rounds before the bias is added. Sets dy to 0 where what the relu gets
// is nearer to 0 than `near`, of the largest value or of 1. No-op for an op without a relu.
void ZeroGradientNearJumps(OpSpec spec, const StepSettings& step, float near, OpInputs& inputs);

}  // namespace lockstep::train
