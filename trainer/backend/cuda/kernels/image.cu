#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace lockstep::train::cuda::kernels {

LOCKSTEP_KERNEL(CopyLines, const void* from, void* to, int type, std::int64_t outer,
                std::int64_t rows, std::int64_t line, std::int64_t from_outer,
                std::int64_t from_row, std::int64_t to_outer, std::int64_t to_row) {
  WithType(type, [=]<typename T>(T) {
    ForEach(outer * rows * line, [=](std::int64_t i) {
      const auto [index, at] = Divide(i, line);
      const auto [o, row] = Divide(index, rows);
      static_cast<T*>(to)[o * to_outer + row * to_row + at] =
          static_cast<const T*>(from)[o * from_outer + row * from_row + at];
    });
  });
}

namespace {

// The index in memory of a channel of an image's pixel.
__device__ std::int64_t IndexOf(std::int64_t image, std::int64_t pixel, std::int64_t channel,
                                std::int64_t area, std::int64_t channels, bool are_inner) {
  return are_inner ? (image * area + pixel) * channels + channel
                   : (image * channels + channel) * area + pixel;
}

}  // namespace

// A thread writes as many channels as memory moves at once; `padded` is a multiple of that number.
LOCKSTEP_KERNEL(PadChannels, const void* x, int from, void* y, int to, std::int64_t images,
                std::int64_t area, std::int64_t channels, std::int64_t padded, bool are_inner) {
  WithType(from, [=]<typename X>(X) {
    WithType(to, [=]<typename Y>(Y) {
      constexpr unsigned kCount = kMostNeighbors<Y>;
      const std::int64_t groups = padded / kCount;
      ForEach(images * area * groups, [=](std::int64_t i) {
        const auto [pixels, group] = Divide(i, groups);
        const auto [image, pixel] = Divide(pixels, area);
        Neighbors<Y, kCount> values{};
        for (unsigned k = 0; k < kCount; ++k) {
          const std::int64_t c = group * kCount + k;
          if (c >= channels) break;
          values.elements[k] = FromFloat<Y>(ToFloat(
              static_cast<const X*>(x)[IndexOf(image, pixel, c, area, channels, are_inner)]));
        }
        Store(static_cast<Y*>(y), i * kCount, values);
      });
    });
  });
}

LOCKSTEP_KERNEL(CropChannels, const void* x, int from, void* y, int to, std::int64_t images,
                std::int64_t area, std::int64_t channels, std::int64_t padded, bool are_inner) {
  WithType(from, [=]<typename X>(X) {
    WithType(to, [=]<typename Y>(Y) {
      ForEach(images * area * channels, [=](std::int64_t i) {
        const auto [pixels, c] = Divide(i, channels);
        const auto [image, pixel] = Divide(pixels, area);
        static_cast<Y*>(y)[IndexOf(image, pixel, c, area, channels, are_inner)] =
            FromFloat<Y>(ToFloat(static_cast<const X*>(x)[pixels * padded + c]));
      });
    });
  });
}

LOCKSTEP_KERNEL(AddPair, const void* a, const void* b, void* y, int type, std::int64_t size,
                bool relu) {
  WithType(type, [=]<typename T>(T) {
    Map(
        static_cast<T*>(y), size,
        [=](float first, float second) { return Rectified(first + second, relu); },
        static_cast<const T*>(a), static_cast<const T*>(b));
  });
}

LOCKSTEP_KERNEL(PassGradients, const void* y, const void* dy, void* first, void* second, int type,
                std::int64_t size) {
  WithType(type, [=]<typename T>(T) {
    constexpr unsigned kCount = kMostNeighbors<T>;
    const auto pass = [=]<unsigned kNeighbors>(std::int64_t i) {
      auto passed = Load<kNeighbors>(static_cast<const T*>(dy), i);
      if (y != nullptr) {
        const auto values = Load<kNeighbors>(static_cast<const T*>(y), i);
        for (unsigned k = 0; k < kNeighbors; ++k) {
          if (!(ToFloat(values.elements[k]) > 0)) passed.elements[k] = T{};
        }
      }
      if (first != nullptr) Store(static_cast<T*>(first), i, passed);
      if (second != nullptr) Store(static_cast<T*>(second), i, passed);
    };
    const std::int64_t tail = size / kCount * kCount;
    ForEach(size / kCount, [=](std::int64_t i) { pass.template operator()<kCount>(i * kCount); });
    ForEach(size - tail, [=](std::int64_t i) { pass.template operator()<1>(tail + i); });
  });
}

}  // namespace lockstep::train::cuda::kernels
