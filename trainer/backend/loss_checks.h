// What every back end demands of a loss and its memory.
#pragma once

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Throws CheckFailure if the sizes are not positive or the smoothing is not in [0, 1).
void CheckLoss(const SoftmaxCrossEntropySpec& spec);
void CheckLoss(const ElementwiseLossSpec& spec);

// Throws CheckFailure unless `memory` has what LossOp::Memory says for the loss.
void CheckSoftmaxMemory(const LossOp::Memory& memory);
void CheckElementwiseMemory(const LossOp::Memory& memory);

}  // namespace lockstep::train
