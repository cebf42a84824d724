// CUDA C++ on a processor: included ahead of a .cu file, it makes the words of the kernels' dialect
// (trainer/backend/cuda/kernels/kernel.h) ordinary C++, and lists each kernel in the simulator's
// table. A block's threads run one after the other on the thread of their stream; those of a kernel
// that is declared with LOCKSTEP_BLOCK_KERNEL take turns at __syncthreads.
#pragma once

#include <cmath>
#include <cstdint>

#include "tests/support/cuda_sim/kernel_table.h"

#define __device__
#define __host__
#define __shared__ static thread_local

namespace cuda_sim {

extern constinit thread_local Position position;
void MeetBlock();  // __syncthreads

}  // namespace cuda_sim

#define threadIdx (::cuda_sim::position.thread)
#define blockIdx (::cuda_sim::position.block)
#define blockDim (::cuda_sim::position.threads)
#define gridDim (::cuda_sim::position.blocks)
#define __syncthreads ::cuda_sim::MeetBlock

#define LOCKSTEP_KERNEL_OF(name, meets, ...)                                   \
  extern "C" void name(__VA_ARGS__);                                           \
  static const ::cuda_sim::ListedKernel name##_is_listed(#name, &name, meets); \
  extern "C" void name(__VA_ARGS__)
#define LOCKSTEP_KERNEL(name, ...) LOCKSTEP_KERNEL_OF(name, false, __VA_ARGS__)
#define LOCKSTEP_BLOCK_KERNEL(name, ...) LOCKSTEP_KERNEL_OF(name, true, __VA_ARGS__)
