// What is known of a GPU, its driver and NVIDIA's libraries.
#pragma once

#include <string>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"

namespace lockstep::train::cuda {

// "580.95.05, for CUDA 13.0": NVIDIA's number, if the kernel tells, and the newest CUDA that the
// driver knows. `version`: cuDriverGetVersion's.
std::string DescribeDriver(int version);

// See Backend::Facts.
std::vector<DeviceFact> DeviceFacts(const Device& device);

}  // namespace lockstep::train::cuda
