// The dialect of the kernels: what nvcc compiles for GPUs, and g++ for the tests' simulated device
// (tests/support/cuda_sim), which gives the words of CUDA C++ below their meaning on a processor.
//
// Kernels take pointers to device memory and numbers, nothing else. Threads of a block meet in
// BlockSum, ColumnSum and __syncthreads alone, and only in a kernel that is declared with
// LOCKSTEP_BLOCK_KERNEL. The order of sums is fixed, so that a step gives the same bits each time.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LOCKSTEP_KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)
#define LOCKSTEP_BLOCK_KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)
#endif

namespace lockstep::train::cuda {

// Calls body(i) for every i < size, each in one thread of the grid, consecutive ones in neighbors.
template <typename Body>
__device__ inline void ForEach(std::int64_t size, const Body& body) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = first; i < size; i += stride) body(i);
}

struct Quotient {
  std::int64_t quotient = 0, remainder = 0;
};

// Divides numbers of at least 0; fast if they have 32 bits.
__device__ inline Quotient Divide(std::int64_t dividend, std::int64_t divisor) {
  if (((dividend | divisor) >> 32) != 0) return {dividend / divisor, dividend % divisor};
  const auto small_dividend = static_cast<std::uint32_t>(dividend);
  const auto small_divisor = static_cast<std::uint32_t>(divisor);
  return {small_dividend / small_divisor, small_dividend % small_divisor};
}

// The most threads of a block that the sums below serve; their number must be a power of two.
inline constexpr unsigned kMostThreads = 256;

// Returns, to every thread, the sum of the values of the block's threads with the same
// threadIdx.x % columns, in the order of a binary tree. Requires: `columns` is a power of two and
// at most the block's threads, and all threads of the block, which has one dimension, call it.
__device__ inline double ColumnSum(double value, unsigned columns) {
  __shared__ double values[kMostThreads];
  __syncthreads();  // of an earlier sum, all have read the result
  values[threadIdx.x] = value;
  for (unsigned half = blockDim.x / 2; half >= columns; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
  }
  __syncthreads();
  return values[threadIdx.x % columns];
}

// Returns the sum of the block's values to every thread. Requires: as ColumnSum.
__device__ inline double BlockSum(double value) {
  return ColumnSum(value, 1);
}

}  // namespace lockstep::train::cuda
