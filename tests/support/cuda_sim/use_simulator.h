// Whatever includes this opens the simulated device where NVIDIA's libraries are asked for, or,
// with LOCKSTEP_TEST_ON_GPU in the environment, the machine's own GPU: then the preset must be
// `cuda`.
#pragma once

#include <cstdlib>

namespace lockstep::train {

// LOCKSTEP_CUDA_SIM_FOLDER: where the simulator's library is, by all of its names.
inline const bool kUsesCudaSimulator =
    std::getenv("LOCKSTEP_TEST_ON_GPU") == nullptr &&
    ::setenv("LOCKSTEP_CUDA_PATH", LOCKSTEP_CUDA_SIM_FOLDER, /*overwrite=*/1) == 0;

}  // namespace lockstep::train
