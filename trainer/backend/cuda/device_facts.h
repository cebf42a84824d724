// What is known of a GPU, its driver and NVIDIA's libraries.
#pragma once

#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"

namespace lockstep::train::cuda {

// See Backend::Facts.
std::vector<DeviceFact> DeviceFacts(const Device& device);

}  // namespace lockstep::train::cuda
