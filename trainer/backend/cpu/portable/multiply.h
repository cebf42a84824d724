// A product of matrices shared out over threads.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"

namespace lockstep::train::cpu {

// Bytes of scratch that Multiply() works in.
std::size_t MultiplyScratchBytes(const Device& device);

// Threads take rows of the result, or columns if it has more of them. Each sum has one order, so
// the bits do not depend on the number of threads.
void Multiply(const Device& device, const Product& product, void* scratch);

}  // namespace lockstep::train::cpu
