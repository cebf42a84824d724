#include "trainer/backend/cpu/winograd.h"

#include <algorithm>
#include <utility>

#include "trainer/backend/cpu/device/cost.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/window.h"

namespace lockstep::train::cpu {
namespace {

constexpr std::int64_t kArea = kWinogradSide * kWinogradSide;
// The size of a thread's transformed tiles of x and, for the gradient, of dy: together with the
// weight they fit approximately into the second-level cache. The gradient reads and writes all of
// its sums for each batch of tiles, so its batches are larger.
constexpr std::int64_t kTileFloats = 32 * 1024, kGradientTileFloats = 168 * 1024;
// The largest product of channels of x and y for which WinogradGradient is used.
constexpr std::int64_t kMostPairs = 8 * 1024;

std::int64_t CeilDiv(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

WinogradImage ImageOf(const ImageView& view) {
  return {view.channels, view.height, view.width, view.inner};
}

bool FillsRegisters(const ImageView& view, std::int64_t lanes) {
  return view.inner % lanes == 0 && view.channels == view.outer * view.inner;
}

std::int64_t TilesOf(std::int64_t images, std::int64_t height, std::int64_t width,
                     std::int64_t taps) {
  const std::int64_t side = kWinogradSide + 1 - taps;
  return images * CeilDiv(height, side) * CeilDiv(width, side);
}

std::int64_t RowsFor(std::int64_t channels, std::int64_t floats) {
  const std::int64_t rows = floats / (kArea * channels);
  return std::clamp<std::int64_t>(rows / kWinogradRows, 1, 8) * kWinogradRows;
}
// Tiles per batch.
std::int64_t RowsOfPass(const ImageView& from) {
  return RowsFor(from.channels, kTileFloats);
}
std::int64_t RowsOfGradient(const ImageView& x, const ImageView& y) {
  return RowsFor(x.channels + y.channels, kGradientTileFloats);
}

// The shape from x to y, without bias and relu, which only the forward pass has.
WinogradShape ShapeOf(const Conv2dSpec& spec, const ImageView& x, const ImageView& y,
                      std::int64_t rows) {
  return {.x = ImageOf(x),
          .y = ImageOf(y),
          .taps = spec.kernel_h,
          .pad_h = PlaceWindow(x.height, spec.kernel_h, 1, spec.padding, spec.zeros.top,
                               spec.zeros.bottom)
                       .pad_begin,
          .pad_w = PlaceWindow(x.width, spec.kernel_w, 1, spec.padding, spec.zeros.left,
                               spec.zeros.right)
                       .pad_begin,
          .rows = rows,
          .bias = nullptr,
          .relu = false};
}

// The tiles of one thread.
WinogradTiles PartOf(std::int64_t tiles, std::int64_t part, std::int64_t parts) {
  return {tiles * part / parts, tiles * (part + 1) / parts};
}

// Floats of the transformed weight for two registers of channels, which are multiplied together.
std::int64_t PairFloats(std::int64_t in_channels, std::int64_t lanes) {
  return kArea * in_channels * 2 * lanes;
}
constexpr auto kMostWeightFloats =
    static_cast<std::int64_t>(Winograd::kMostWeightBytes / sizeof(float));

// The blocks of a weight: equally large, except for the last.
struct Blocks {
  std::int64_t count, pairs;  // pairs: pairs of registers per block
};
Blocks BlocksOf(std::int64_t in_channels, std::int64_t out_channels, std::int64_t lanes) {
  const std::int64_t all = CeilDiv(out_channels, 2 * lanes);
  const std::int64_t most = kMostWeightFloats / PairFloats(in_channels, lanes);
  const std::int64_t pairs = CeilDiv(all, CeilDiv(all, most));
  return {CeilDiv(all, pairs), pairs};
}

// The work of a convolution from `from` to `to` with `rows` tiles per batch.
WinogradWork WorkOf(const Device& device, const Conv2dSpec& spec, const ImageView& from,
                    const ImageView& to, std::int64_t rows) {
  const std::int64_t pairs_of_vectors = CeilDiv(to.channels, 2 * device.kernels.lanes);
  return {.in_channels = static_cast<double>(from.channels),
          .out_channels = static_cast<double>(to.channels),
          .tiles = static_cast<double>(TilesOf(to.rows, to.height, to.width, spec.kernel_h)),
          .rows = static_cast<double>(rows),
          .pieces = static_cast<double>(pairs_of_vectors),
          .blocks = 1,
          .threads = static_cast<double>(device.threads),
          .gradient = false};
}

}  // namespace

bool Winograd::Supports(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                        const ImageView& y) {
  const std::int64_t lanes = device.kernels.lanes;
  const bool square = spec.kernel_h == spec.kernel_w && (spec.kernel_h == 3 || spec.kernel_h == 5);
  return square && spec.stride_h == 1 && spec.stride_w == 1 && FillsRegisters(x, lanes) &&
         FillsRegisters(y, lanes) &&
         PairFloats(std::max(x.channels, y.channels), lanes) <= kMostWeightFloats;
}

std::string Winograd::Name(const Device& device) {
  return std::string("lockstep:winograd:") + NameOf(device.isa);
}

double Winograd::Seconds(const Device& device, const Conv2dSpec& spec, const ImageView& from,
                         const ImageView& to) {
  WinogradWork work = WorkOf(device, spec, from, to, RowsOfPass(from));
  work.blocks =
      static_cast<double>(BlocksOf(from.channels, to.channels, device.kernels.lanes).count);
  return WinogradSeconds(work, device.isa);
}

Winograd::Winograd(const Device& device, std::int64_t images, const WinogradShape& shape,
                   const WinogradWeight& weight)
    : kernels_(&device.kernels),
      threads_(device.threads),
      tiles_(TilesOf(images, shape.y.height, shape.y.width, shape.taps)),
      shape_(shape),
      weight_(weight),
      vectors_(shape.y.channels / device.kernels.lanes),
      block_vectors_(std::min(
          vectors_, 2 * BlocksOf(shape.x.channels, shape.y.channels, device.kernels.lanes).pairs)) {
}

Winograd Winograd::Forward(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                           const ImageView& y) {
  const std::int64_t field = spec.kernel_h * spec.kernel_w;
  WinogradShape shape = ShapeOf(spec, x, y, RowsOfPass(x));
  shape.relu = spec.relu;
  return {device,
          x.rows,
          shape,
          {.in_channels = x.channels,
           .taps = shape.taps,
           .out_stride = x.channels * field,
           .in_stride = field,
           .flipped = false}};
}

Winograd Winograd::BackwardData(const Device& device, const Conv2dSpec& spec, const ImageView& dy,
                                const ImageView& dx) {
  const std::int64_t field = spec.kernel_h * spec.kernel_w;
  WinogradShape shape = ShapeOf(spec, dx, dy, RowsOfPass(dy));
  std::swap(shape.x, shape.y);
  shape.pad_h = shape.taps - 1 - shape.pad_h;
  shape.pad_w = shape.taps - 1 - shape.pad_w;
  return {device,
          dy.rows,
          shape,
          {.in_channels = dy.channels,
           .taps = shape.taps,
           .out_stride = field,
           .in_stride = dx.channels * field,
           .flipped = true}};
}

std::int64_t Winograd::VectorFloats() const {
  return kArea * shape_.x.channels * kernels_->lanes;
}

std::size_t Winograd::WeightBytes() const {
  return static_cast<std::size_t>(block_vectors_ * VectorFloats()) * sizeof(float);
}

std::int64_t Winograd::ThreadFloats() const {
  return kArea * (shape_.rows * (shape_.x.channels + 2 * kernels_->lanes) + kWinogradGap);
}

std::size_t Winograd::ScratchBytes() const {
  return WeightBytes() + static_cast<std::size_t>(threads_ * ThreadFloats()) * sizeof(float);
}

WinogradBlock Winograd::TransformWeight(std::int64_t first, std::int64_t last, const float* weight,
                                        float* transformed) const {
  ParallelFor(threads_, CeilDiv(last - first, 2), [&](std::int64_t begin, std::int64_t end) {
    kernels_->winograd_weight(weight_, first + 2 * begin, std::min(first + 2 * end, last), weight,
                              transformed + 2 * begin * VectorFloats());
  });
  return {transformed, first, last};
}

void Winograd::Run(const float* from, const float* weight, const float* bias, float* to,
                   void* scratch) const {
  auto* transformed = static_cast<float*>(scratch);
  float* of_threads = transformed + block_vectors_ * VectorFloats();
  WinogradShape shape = shape_;
  shape.bias = bias;
  for (std::int64_t vector = 0; vector < vectors_; vector += block_vectors_) {
    const WinogradBlock block =
        TransformWeight(vector, std::min(vector + block_vectors_, vectors_), weight, transformed);
    ParallelFor(threads_, threads_, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        kernels_->winograd(shape, PartOf(tiles_, part, threads_), from, block, to,
                           of_threads + part * ThreadFloats());
      }
    });
  }
}

bool WinogradGradient::Supports(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                                const ImageView& y) {
  return Winograd::Supports(device, spec, x, y) && x.channels * y.channels <= kMostPairs;
}

double WinogradGradient::Seconds(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                                 const ImageView& y) {
  const std::int64_t rows = RowsOfGradient(x, y);
  WinogradWork work = WorkOf(device, spec, x, y, rows);
  work.pieces = static_cast<double>(x.channels);
  work.gradient = true;
  return WinogradSeconds(work, device.isa);
}

WinogradGradient::WinogradGradient(const Device& device, const Conv2dSpec& spec, const ImageView& x,
                                   const ImageView& y)
    : kernels_(&device.kernels),
      threads_(device.threads),
      tiles_(TilesOf(y.rows, y.height, y.width, spec.kernel_h)),
      shape_(ShapeOf(spec, x, y, RowsOfGradient(x, y))) {}

std::int64_t WinogradGradient::SumFloats() const {
  return kArea * shape_.x.channels * shape_.y.channels + shape_.y.channels;
}

std::int64_t WinogradGradient::ThreadFloats() const {
  return SumFloats() +
         kArea * (shape_.rows * (shape_.x.channels + shape_.y.channels) + 2 * kWinogradGap) +
         shape_.y.channels;
}

std::size_t WinogradGradient::ScratchBytes() const {
  return static_cast<std::size_t>(threads_ * ThreadFloats()) * sizeof(float);
}

void WinogradGradient::Run(const float* x, const float* dy, float* weight, float* bias,
                           void* scratch) const {
  auto* memory = static_cast<float*>(scratch);
  ParallelFor(threads_, threads_, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      float* sums = memory + part * ThreadFloats();
      std::fill_n(sums, SumFloats(), 0.0f);
      kernels_->winograd_gradient(shape_, PartOf(tiles_, part, threads_), x, dy, sums,
                                  sums + SumFloats());
    }
  });
  const WinogradParts parts{memory, threads_, ThreadFloats()};
  ParallelFor(threads_, shape_.x.channels, [&](std::int64_t first, std::int64_t last) {
    kernels_->winograd_gradient_weight(shape_, parts, first, last, weight);
  });
  if (bias == nullptr) return;
  const float* sums = memory + kArea * shape_.x.channels * shape_.y.channels;
  for (std::int64_t k = 0; k < shape_.y.channels; ++k) {
    bias[k] = 0;
    for (int part = 0; part < threads_; ++part) bias[k] += sums[part * ThreadFloats() + k];
  }
}

}  // namespace lockstep::train::cpu
