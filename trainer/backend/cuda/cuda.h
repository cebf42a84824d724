// One NVIDIA GPU. Its libraries are opened at run time: see driver_api.h.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// `rounds_to_tf32`: see BackendOptions. GPU `device` of those that the process may see
// (CUDA_VISIBLE_DEVICES), with NVIDIA's libraries. `devices`: see BackendOptions. Throws
// NotBuiltForDevice if this build has no kernels, DeviceMissing if something is not there,
// DeviceGone if that is one of `devices` GPUs, and DeviceError if the driver refuses it at present.
std::unique_ptr<Backend> MakeCudaBackend(int device, int devices, bool rounds_to_tf32);

}  // namespace lockstep::train
