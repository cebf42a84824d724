// A function of the simulated libraries that programs find by its name.
#pragma once

#define CUDA_SIM_EXPORT extern "C" __attribute__((visibility("default")))
