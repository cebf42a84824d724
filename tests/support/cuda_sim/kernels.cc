// The trainer's kernels, compiled for the simulated device: CMake includes sim_device.h ahead.
#include "trainer/backend/cuda/kernels/kernels.cu"
