// The weight gradient of a convolution whose input has few channels (a first layer):
//   dw[k,c,r,s] = sum over p,q of dy[k,p,q] * x[c, p * stride_h + r, q * stride_w + s]
// Lanes are filters. The sums of a few blocks of filters and a kernel row's columns stay in
// registers for a band of output rows.
#include "trainer/backend/cpu/kernels/kernels.h"
#include "trainer/backend/cpu/kernels/lanes.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {
namespace {

using Vector = Lanes<LOCKSTEP_LANES>::Float;

// Adds kColumns taps, starting at `x` (the window's row at output 0,0), for kBlocks blocks of
// filters, starting at `dy`. `sum` is kBlocks (`sum_stride` apart) x kColumns x lanes.
template <int kBlocks, int kColumns>
void AddRow(const FewChannelShape& s, const float* x, const float* dy, float* sum,
            std::int64_t sum_stride) {
  Vector sums[kBlocks][kColumns] = {};
  for (std::int64_t p = 0; p < s.out_h; ++p) {
    const float* pixel = x + p * s.stride_h * s.padded_w;
    const float* gradient = dy + p * s.out_w * s.pixel_stride;
    for (std::int64_t q = 0; q < s.out_w; ++q) {
      for (int b = 0; b < kBlocks; ++b) {
        const auto g = Load<Vector>(gradient + b * s.block_stride);
        for (int c = 0; c < kColumns; ++c) sums[b][c] += g * pixel[c];
      }
      pixel += s.stride_w;
      gradient += s.pixel_stride;
    }
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int c = 0; c < kColumns; ++c) {
      float* at = sum + b * sum_stride + c * LOCKSTEP_LANES;
      Store(at, Load<Vector>(at) + sums[b][c]);
    }
  }
}

// Adds kColumns taps from column `first` on of all kernel rows, for kBlocks blocks from `block` on.
// Each row reads the blocks' part of dy again, from the first-level cache.
template <int kBlocks, int kColumns>
void AddBlocks(const FewChannelShape& s, const float* x, const float* dy, float* sum,
               std::int64_t block, std::int64_t first) {
  const std::int64_t row_floats = s.kernel_w * LOCKSTEP_LANES;
  const std::int64_t block_floats = s.channels * s.kernel_h * row_floats;
  float* at = sum + block * block_floats + first * LOCKSTEP_LANES;
  for (std::int64_t c = 0; c < s.channels; ++c) {
    for (std::int64_t r = 0; r < s.kernel_h; ++r, at += row_floats) {
      AddRow<kBlocks, kColumns>(s, x + (c * s.padded_h + r) * s.padded_w + first,
                                dy + block * s.block_stride, at, block_floats);
    }
  }
}

// Adds all blocks, as many at a time as registers can hold with kColumns sums each.
template <int kColumns>
void AddColumns(const FewChannelShape& s, const float* x, const float* dy, float* sum,
                std::int64_t first) {
  constexpr int kBlocks = kColumns <= 2 ? 4 : kColumns <= 5 ? 2 : 1;
  std::int64_t block = 0;
  for (; block + kBlocks <= s.blocks; block += kBlocks) {
    AddBlocks<kBlocks, kColumns>(s, x, dy, sum, block, first);
  }
  for (; block < s.blocks; ++block) AddBlocks<1, kColumns>(s, x, dy, sum, block, first);
}

void AddColumns(const FewChannelShape& s, std::int64_t columns, const float* x, const float* dy,
                float* sum, std::int64_t first) {
  switch (columns) {
    case 1:
      return AddColumns<1>(s, x, dy, sum, first);
    case 2:
      return AddColumns<2>(s, x, dy, sum, first);
    case 3:
      return AddColumns<3>(s, x, dy, sum, first);
    case 4:
      return AddColumns<4>(s, x, dy, sum, first);
    case 5:
      return AddColumns<5>(s, x, dy, sum, first);
    case 6:
      return AddColumns<6>(s, x, dy, sum, first);
    default:
      return AddColumns<7>(s, x, dy, sum, first);
  }
}

void AddBias(const FewChannelShape& s, const float* dy, float* bias) {
  for (std::int64_t block = 0; block < s.blocks; ++block) {
    Vector sum{};
    for (std::int64_t pixel = 0; pixel < s.out_h * s.out_w; ++pixel) {
      sum += Load<Vector>(dy + block * s.block_stride + pixel * s.pixel_stride);
    }
    float* at = bias + block * LOCKSTEP_LANES;
    Store(at, Load<Vector>(at) + sum);
  }
}

void FewChannelGradient(const FewChannelShape& shape, const float* x, const float* dy, float* sum,
                        float* bias) {
  constexpr std::int64_t kMostColumns = 7;
  // dy is processed in bands of rows, so that two blocks of a band stay in the first-level cache.
  constexpr std::int64_t kBandFloats = 6 * 1024;
  const std::int64_t row_floats = 2 * shape.out_w * LOCKSTEP_LANES;
  const std::int64_t band_rows = row_floats < kBandFloats ? kBandFloats / row_floats : 1;
  FewChannelShape s = shape;
  for (std::int64_t p = 0; p < shape.out_h; p += band_rows) {
    s.out_h = shape.out_h - p < band_rows ? shape.out_h - p : band_rows;
    const float* gradient = dy + p * s.out_w * s.pixel_stride;
    for (std::int64_t first = 0; first < s.kernel_w; first += kMostColumns) {
      const std::int64_t left = s.kernel_w - first;
      AddColumns(s, left < kMostColumns ? left : kMostColumns, x + p * s.stride_h * s.padded_w,
                 gradient, sum, first);
    }
    AddBias(s, gradient, bias);
  }
}

}  // namespace

void Fill(FewChannelKernels& kernels) {
  kernels = {
      .few_channel_gradient = FewChannelGradient,
  };
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
