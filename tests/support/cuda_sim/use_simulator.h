// Whatever includes this opens the simulated device where NVIDIA's libraries are asked for.
#pragma once

#include <cstdlib>

namespace lockstep::train {

// LOCKSTEP_CUDA_SIM_FOLDER: where the simulator's library is, by all of its names.
inline const bool kUsesCudaSimulator =
    ::setenv("LOCKSTEP_CUDA_PATH", LOCKSTEP_CUDA_SIM_FOLDER, /*overwrite=*/1) == 0;

}  // namespace lockstep::train
