#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/core/rng.h"

namespace lockstep::train::cuda::kernels {
namespace {

// The random numbers of a step: see DropoutSpec.
struct Numbers {
  std::uint64_t key, first_position, step;

  __device__ Numbers(const StepContext& context, std::uint64_t layer)
      : key(DeriveKey(context.seed, layer)),
        first_position(context.first_position),
        step(context.step) {}
  // The random bits of elements 4 * group to 4 * group + 3 of row `n`.
  __device__ PhiloxBlock Of(std::int64_t n, std::int64_t group) const {
    return Philox(key, first_position + static_cast<std::uint64_t>(n),
                  step << 32 | static_cast<std::uint64_t>(group));
  }
};

template <typename T>
__device__ T Masked(T value, std::uint32_t word, float rate) {
  return FromFloat<T>(UniformFloat(word) >= rate ? ToFloat(value) * (1.0f / (1.0f - rate)) : 0.0f);
}

}  // namespace

// A thread for each four elements that share their random numbers.
LOCKSTEP_KERNEL(DropOfRows, const void* x, void* y, int type, std::int64_t rows, std::int64_t row,
                const StepContext* step, std::uint64_t layer, float rate) {
  const std::int64_t groups = (row + 3) / 4;
  const Numbers numbers(*step, layer);
  WithType(type, [=]<typename T>(T) {
    ForEach(rows * groups, [=](std::int64_t i) {
      const auto [n, group] = Divide(i, groups);
      const PhiloxBlock words = numbers.Of(n, group);
      for (unsigned part = 0; part < 4; ++part) {
        const std::int64_t element = 4 * group + part;
        if (element >= row) return;
        const std::int64_t at = n * row + element;
        static_cast<T*>(y)[at] = Masked(static_cast<const T*>(x)[at], words[part], rate);
      }
    });
  });
}

LOCKSTEP_KERNEL(DropOfChannelsLast, const void* x, void* y, int type, std::int64_t rows,
                std::int64_t area, std::int64_t channels, const StepContext* step,
                std::uint64_t layer, float rate) {
  const Numbers numbers(*step, layer);
  WithType(type, [=]<typename T>(T) {
    ForEach(rows * area * channels, [=](std::int64_t i) {
      const auto [pixels, channel] = Divide(i, channels);
      const auto [n, pixel] = Divide(pixels, area);
      const std::int64_t element = channel * area + pixel;
      const PhiloxBlock words = numbers.Of(n, element / 4);
      static_cast<T*>(y)[i] =
          Masked(static_cast<const T*>(x)[i], words[static_cast<std::size_t>(element % 4)], rate);
    });
  });
}

}  // namespace lockstep::train::cuda::kernels
