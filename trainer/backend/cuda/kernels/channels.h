// How the threads of a grid share the channels and pixels of images: the blocks of ChannelSums.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/kernels/element.h"

namespace lockstep::train::cuda::kernels {

// An image's channels: neighbors in memory, as in a matrix, or `area` pixels apart.
struct Channels {
  std::int64_t channels = 0, area = 0;
  bool are_inner = false;

  // The index in memory of `channel` in pixel `pixel` of all images.
  __device__ std::int64_t At(std::int64_t pixel, std::int64_t channel) const {
    if (are_inner) return pixel * channels + channel;
    const auto [n, at] = Divide(pixel, area);
    return (n * channels + channel) * area + at;
  }
};

// Pixels, and where a thread's channels of them are in memory.
template <unsigned kAhead>
struct Places {
  std::int64_t pixel[kAhead], index[kAhead];
};

// The elements at those places.
template <unsigned kCount, unsigned kAhead, typename T>
struct Values {
  Neighbors<T, kCount> at[kAhead];
  __device__ Values(const T* x, const Places<kAhead>& places) {
    for (unsigned a = 0; a < kAhead; ++a) at[a] = Load<kCount>(x, places.index[a]);
  }
};

// Calls body<kCount>() with how many channels a thread works on: as many as memory moves at once,
// if they are neighbors.
template <typename T, typename Body>
__device__ void WithNeighbors(const Channels& shape, const Body& body) {
  constexpr unsigned kCount = kMostNeighbors<T>;
  if (shape.are_inner && shape.channels % kCount == 0) {
    body.template operator()<kCount>();
  } else {
    body.template operator()<1>();
  }
}

// Lets each thread visit kCount channels of its block's part of `pixels`: blockIdx.y says which
// part, and blockIdx.x which `columns` * kCount channels. `make` returns, for the thread's first
// channel, a function that is called with the places of kAhead pixels, or of one. It reads all of
// them before it uses any, which hides the latency of memory.
template <unsigned kCount, unsigned kAhead, typename Make>
__device__ void ForEachPixel(const Channels& shape, std::int64_t pixels, unsigned columns,
                             const Make& make) {
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * columns + threadIdx.x % columns;
  const std::int64_t channel = column * kCount;
  if (channel >= shape.channels) return;
  const std::int64_t begin = pixels * blockIdx.y / gridDim.y;
  const std::int64_t end = pixels * (blockIdx.y + 1) / gridDim.y;
  const std::int64_t stride = blockDim.x / columns;
  const auto visit = make(channel);
  std::int64_t pixel = begin + threadIdx.x / columns;
  for (; pixel + (kAhead - 1) * stride < end; pixel += kAhead * stride) {
    Places<kAhead> places;
    for (unsigned a = 0; a < kAhead; ++a) {
      places.pixel[a] = pixel + a * stride;
      places.index[a] = shape.At(places.pixel[a], channel);
    }
    visit(places);
  }
  for (; pixel < end; pixel += stride) {
    visit(Places<1>{.pixel = {pixel}, .index = {shape.At(pixel, channel)}});
  }
}

// What a thread sums for a channel.
template <typename Number>
struct PairOf {
  Number first = 0, second = 0;
};
using Pair = PairOf<double>;

// Writes the sums over the block's threads of what each has summed by ForEachPixel: those of
// channel c are sums[2 * (blockIdx.y * channels + c)] and the one after it.
template <unsigned kCount, typename Number>
__device__ void WriteSums(const Channels& shape, unsigned columns,
                          const PairOf<Number> (&own)[kCount], double* sums) {
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * columns + threadIdx.x % columns;
  for (unsigned k = 0; k < kCount; ++k) {
    const Pair sum = {.first = ColumnSum(static_cast<double>(own[k].first), columns),
                      .second = ColumnSum(static_cast<double>(own[k].second), columns)};
    const std::int64_t channel = column * kCount + k;
    if (threadIdx.x >= columns || channel >= shape.channels) continue;
    double* const target = sums + 2 * (blockIdx.y * shape.channels + channel);
    target[0] = sum.first;
    target[1] = sum.second;
  }
}

// Normalizes in float32. The mean is in two parts, so that it loses no digits of values that are
// close to it.
struct Normalizing {
  float mean = 0, rest = 0, inverse_deviation = 0;

  Normalizing() = default;
  __device__ Normalizing(double exact_mean, double deviation_inverse)
      : mean(static_cast<float>(exact_mean)),
        rest(static_cast<float>(exact_mean - mean)),
        inverse_deviation(static_cast<float>(deviation_inverse)) {}
  __device__ float operator()(float x) const { return (x - mean - rest) * inverse_deviation; }
};

// A channel's y = x_hat * gamma + beta.
struct Affine {
  float gamma = 1, beta = 0;
  __device__ float operator()(float x_hat) const { return x_hat * gamma + beta; }
};

// Normalizing and Affine of the kCount channels that a thread visits.
template <unsigned kCount>
struct ChannelNorms {
  Normalizing normalized[kCount];
  Affine affine[kCount];

  __device__ ChannelNorms(std::int64_t channel, const double* means,
                          const double* inverse_deviations, const float* gamma, const float* beta) {
    for (unsigned k = 0; k < kCount; ++k) {
      const std::int64_t c = channel + k;
      normalized[k] = {means[c], inverse_deviations[c]};
      affine[k] = {gamma[c], beta[c]};
    }
  }
  // dy, or 0 where a relu has made y 0.
  __device__ float Gradient(unsigned k, float x_hat, float dy, bool relu) const {
    return !relu || affine[k](x_hat) > 0 ? dy : 0.0f;
  }
};

// The sum of channel blockIdx.x over the parts, to every thread.
__device__ inline Pair SumOfParts(const double* sums, std::int64_t parts, std::int64_t channels) {
  Pair sum;
  for (std::int64_t part = threadIdx.x; part < parts; part += blockDim.x) {
    const double* own = sums + 2 * (part * channels + blockIdx.x);
    sum.first += own[0];
    sum.second += own[1];
  }
  return {.first = BlockSum(sum.first), .second = BlockSum(sum.second)};
}

}  // namespace lockstep::train::cuda::kernels
