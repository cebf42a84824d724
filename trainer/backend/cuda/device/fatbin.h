// The kernels that nvcc made of kernels/kernels.cu, for every kind of GPU that this build serves.
#pragma once

namespace lockstep::train::cuda {

// The image that the driver loads. A build without a CUDA toolkit (LOCKSTEP_CUDA) has no kernels:
// a driver refuses its image.
const void* Fatbin();
bool HasKernels();

}  // namespace lockstep::train::cuda
