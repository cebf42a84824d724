// Conversions between floating-point types.
#pragma once

#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/low_precision_op.h"

namespace lockstep::train::cuda {

void Cast(const Device& device, const CastOperands& operands);

}  // namespace lockstep::train::cuda
