#include "trainer/backend/cpu/few_channel_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/parallel.h"

namespace lockstep::train::cpu {
namespace {

constexpr std::int64_t kLine = 16;  // floats: keeps threads' sums in separate cache lines

std::int64_t RoundedToLine(std::int64_t floats) {
  return (floats + kLine - 1) / kLine * kLine;
}

}  // namespace

bool FewChannelGradient::Supports(const Device& device, const ImageView& x, const ImageView& y) {
  const std::int64_t lanes = device.kernels.lanes;
  return x.inner == 1 && x.channels <= kMostChannels &&
         (y.inner == lanes || (y.outer == 1 && y.inner % lanes == 0));
}

std::string FewChannelGradient::Name(const Device& device) {
  return std::string("lockstep:") + NameOf(device.isa);
}

FewChannelGradient::FewChannelGradient(const Device& device, const Conv2dSpec& spec,
                                       const ImageView& y)
    : kernels_(device.kernels), threads_(device.threads), rows_(y.rows) {
  const Shape& x = spec.x.shape;
  const auto [rows, columns] = WindowsOf(spec);
  const std::int64_t lanes = kernels_.lanes;
  in_h_ = x[2];
  in_w_ = x[3];
  pad_h_ = rows.pad_begin;
  pad_w_ = columns.pad_begin;
  image_floats_ = x[1] * in_h_ * in_w_;
  result_floats_ = y.row_floats();
  used_filters_ = y.channels;
  // A block has `lanes` adjacent channels. The blocks of channels-last images are adjacent, those
  // of blocked images are a plane apart.
  shape_ = {.channels = x[1],
            .kernel_h = spec.kernel_h,
            .kernel_w = spec.kernel_w,
            .stride_h = spec.stride_h,
            .stride_w = spec.stride_w,
            .padded_h = std::max(in_h_ + pad_h_, (rows.out - 1) * rows.stride + rows.size),
            .padded_w = std::max(in_w_ + pad_w_, (columns.out - 1) * columns.stride + columns.size),
            .out_h = rows.out,
            .out_w = columns.out,
            .blocks = y.outer * (y.inner / lanes),
            .block_stride = y.outer == 1 ? lanes : y.area() * y.inner,
            .pixel_stride = y.inner};
}

std::int64_t FewChannelGradient::ThreadFloats() const {
  return RoundedToLine(padded_floats()) + RoundedToLine(filters() * (taps() + 1));
}

std::size_t FewChannelGradient::ScratchBytes() const {
  return static_cast<std::size_t>(threads_ * ThreadFloats()) * sizeof(float);
}

void FewChannelGradient::Pad(const float* image, float* padded) const {
  for (std::int64_t c = 0; c < shape_.channels; ++c) {
    float* plane = padded + c * shape_.padded_h * shape_.padded_w;
    for (std::int64_t h = 0; h < in_h_; ++h) {
      std::copy_n(image + (c * in_h_ + h) * in_w_, in_w_,
                  plane + (h + pad_h_) * shape_.padded_w + pad_w_);
    }
  }
}

void FewChannelGradient::AddImages(std::int64_t begin, std::int64_t end, const float* x,
                                   const float* dy, float* scratch) const {
  std::fill_n(scratch, ThreadFloats(), 0.0f);
  float* sum = scratch + RoundedToLine(padded_floats());
  for (std::int64_t n = begin; n < end; ++n) {
    Pad(x + n * image_floats_, scratch);
    kernels_.few_channel_gradient(shape_, scratch, dy + n * result_floats_, sum,
                                  sum + filters() * taps());
  }
}

void FewChannelGradient::Run(const float* x, const float* dy, float* weight, float* bias,
                             void* scratch) const {
  auto* memory = static_cast<float*>(scratch);
  ParallelFor(threads_, threads_, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      AddImages(rows_ * part / threads_, rows_ * (part + 1) / threads_, x, dy,
                memory + part * ThreadFloats());
    }
  });
  // Adds the parts' sums in order. Filter k is lane k % lanes of block k / lanes.
  const std::int64_t lanes = kernels_.lanes, sums_at = RoundedToLine(padded_floats());
  for (std::int64_t k = 0; k < used_filters_; ++k) {
    for (std::int64_t tap = 0; tap <= taps(); ++tap) {
      const std::int64_t at =
          tap < taps() ? (k / lanes * taps() + tap) * lanes + k % lanes : filters() * taps() + k;
      float sum = 0;
      for (int part = 0; part < threads_; ++part)
        sum += memory[part * ThreadFloats() + sums_at + at];
      if (tap < taps()) {
        weight[k * taps() + tap] = sum;
      } else if (bias != nullptr) {
        bias[k] = sum;
      }
    }
  }
}

}  // namespace lockstep::train::cpu
