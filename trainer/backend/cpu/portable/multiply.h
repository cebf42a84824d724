// A matrix product divided among threads.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device/device.h"

namespace lockstep::train::cpu {

// The scratch bytes that Multiply() needs.
std::size_t MultiplyScratchBytes(const Device& device);

// The threads divide the result's rows, or its columns if it has more of them. Each sum has a fixed
// order, so the bits do not depend on the number of threads.
void Multiply(const Device& device, const Product& product, void* scratch);

}  // namespace lockstep::train::cpu
