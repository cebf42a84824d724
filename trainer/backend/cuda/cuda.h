// One NVIDIA GPU. Its libraries are opened at run time: see driver_api.h.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// `rounds_to_tf32`: see BackendOptions. GPU `device` of those that the process may see
// (CUDA_VISIBLE_DEVICES), with NVIDIA's libraries. Throws NotBuiltForDevice if this build has no
// kernels, DeviceMissing if something is not there, and DeviceError if the driver refuses it at
// present.
std::unique_ptr<Backend> MakeCudaBackend(int device, bool rounds_to_tf32);

}  // namespace lockstep::train
