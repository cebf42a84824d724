#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {
namespace {

// Where a tap reads, from the window's first element. Row -1: it is padding.
struct Tap {
  std::int32_t offset;
  std::int16_t row, column;
};

// The elements of memory from one to the next.
struct PatchStrides {
  std::int64_t image, channel, row, column;
};

}  // namespace

// What each tap reads is worked out once for a block: divisions are slow.
LOCKSTEP_BLOCK_KERNEL(GatherPatches, const void* x, void* patches, int type, std::int64_t images,
                      std::int64_t channels, std::int64_t padded, bool are_inner,
                      LOCKSTEP_WINDOW_PARAMETERS) {
  __shared__ Tap taps[kMostTaps];
  const PatchStrides strides =
      are_inner ? PatchStrides{in_h * in_w * channels, 1, in_w * channels, channels}
                : PatchStrides{in_h * in_w * channels, in_h * in_w, in_w, 1};
  for (std::int64_t i = threadIdx.x; i < padded; i += blockDim.x) {
    const auto [channel, place] = Divide(i, size_h * size_w);
    const auto [row, column] = Divide(place, size_w);
    const std::int64_t offset =
        channel * strides.channel + row * strides.row + column * strides.column;
    taps[i] = {.offset = static_cast<std::int32_t>(offset),
               .row = static_cast<std::int16_t>(channel < channels ? row : -1),
               .column = static_cast<std::int16_t>(column)};
  }
  __syncthreads();
  const Tap* const table = taps;
  WithType(type, [=]<typename T>(T) {
    constexpr unsigned kCount = kMostNeighbors<T>;
    const std::int64_t groups = padded / kCount;
    ForEach(images * out_h * out_w * groups, [=](std::int64_t i) {
      const auto [pixels, group] = Divide(i, groups);
      const auto [lines, q] = Divide(pixels, out_w);
      const auto [image, p] = Divide(lines, out_h);
      const auto first_row = static_cast<int>(p * stride_h - pad_h);
      const auto first_column = static_cast<int>(q * stride_w - pad_w);
      const std::int64_t first =
          image * strides.image + first_row * strides.row + first_column * strides.column;
      Neighbors<T, kCount> values{};
      for (unsigned k = 0; k < kCount; ++k) {
        const Tap tap = table[group * kCount + k];
        const int row = first_row + tap.row, column = first_column + tap.column;
        if (tap.row >= 0 && row >= 0 && row < in_h && column >= 0 && column < in_w) {
          values.elements[k] = static_cast<const T*>(x)[first + tap.offset];
        }
      }
      Store(static_cast<T*>(patches), i * kCount, values);
    });
  });
}

}  // namespace lockstep::train::cuda::kernels
