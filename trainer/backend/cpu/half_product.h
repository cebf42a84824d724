// Convolutions and dense layers of the 16-bit types by oneDNN.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"

namespace lockstep::train::cpu {

// True if the processor has instructions for products of the type. Float32: always.
bool Computes(const Device& device, DType type);

// Returns an op that computes in the type of its input, or null if the spec is neither a
// convolution nor a dense layer, or if only plain loops would compute it. Images of its output are
// channels-last.
std::unique_ptr<Op> MakeHalfProduct(const Device& device, const OpSpec& spec);

}  // namespace lockstep::train::cpu
