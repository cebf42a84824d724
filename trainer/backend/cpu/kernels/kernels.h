// Vectorized single-threaded kernels. Each source file of this folder is compiled once per
// instruction set below, in a namespace of its own (LOCKSTEP_ISA: baseline, avx2 or avx512;
// LOCKSTEP_LANES: floats in a register; see CMakeLists.txt), so it must not include inline
// functions that another translation unit might share (no standard containers or algorithms).
// Elementwise kernels give the same bits on every instruction set, because replicas on different
// processors apply the same update to the same parameters and must not drift apart.
#pragma once

#include <cstdint>

#include "trainer/backend/activation.h"
#include "trainer/backend/trust_squares.h"

namespace lockstep::train::cpu {

// Instruction sets from narrowest to widest. kBaseline is SSE4.1; on other architectures it is the
// only one, and what every processor has (NEON on 64-bit ARM).
enum class Isa { kBaseline, kAvx2, kAvx512 };

// The window of a pool or a depthwise convolution over one plane: height x width x inner, see
// ImageView.
struct WindowShape {
  std::int64_t in_h, in_w, out_h, out_w, inner;
  std::int64_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;  // pad: at the beginning
  bool relu;
};
// Rows [first, last) of a plane.
struct RowRange {
  std::int64_t first, last;
};

// A convolution of one image with few channels. x has `channels` planes of padded_h x padded_w, so
// that no window exceeds it. dy is blocks x out_h x out_w x Kernels::lanes. Strides are in floats.
struct FewChannelShape {
  std::int64_t channels, kernel_h, kernel_w, stride_h, stride_w;
  std::int64_t padded_h, padded_w, out_h, out_w;
  std::int64_t blocks, block_stride, pixel_stride;
};

// A convolution with stride 1 by Winograd's method. Kernels are `taps` x `taps`, 3 or 5. The
// images' channels fill registers; see ImageView.
struct WinogradImage {
  std::int64_t channels, height, width, inner;
};
struct WinogradShape {
  WinogradImage x, y;
  std::int64_t taps, pad_h, pad_w;  // pad: at the beginning
  std::int64_t rows;                // tiles per batch, a multiple of kWinogradRows
  const float* bias;                // for each channel of y, or null
  bool relu;
};
// Element (out, in, tap) of the weight is at out * out_stride + in * in_stride + tap. `flipped`
// reverses the taps, for the gradient of x.
struct WinogradWeight {
  std::int64_t in_channels, taps, out_stride, in_stride;
  bool flipped;
};
// The transformed weight of y's channels [first_vector * lanes, last_vector * lanes). Requires:
// first_vector is even.
struct WinogradBlock {
  const float* weight;
  std::int64_t first_vector, last_vector;
};
// The threads' partial sums of a weight's gradient: `count` arrays, `stride` floats apart.
struct WinogradParts {
  const float* sums;
  std::int64_t count, stride;
};
struct WinogradTiles {
  std::int64_t first, last;  // [first, last)
};
// The side of a tile of x. A tile of y has side kWinogradSide + 1 - taps.
inline constexpr std::int64_t kWinogradSide = 6;
inline constexpr std::int64_t kWinogradRows = 12;
inline constexpr std::int64_t kWinogradGap = 16;  // floats after each matrix of tiles

// Vectors of `channels` floats that are normalized, each by itself. A vector's channels are blocks
// of `inner` adjacent floats, `block` floats apart; what the last block has beyond the channels is
// zero. With inner 1, neighbours are adjacent (step 1).
struct LayerNormShape {
  std::int64_t channels, inner, block;
  std::int64_t step;  // from one vector to the next
  float epsilon;
};
struct LayerNormPass {
  std::int64_t count;  // of vectors
  const float *x, *gamma, *beta;
  float* y;
  float* moments;  // for each vector: mean, 1 / sqrt(variance + epsilon)
};
struct LayerNormGradient {
  std::int64_t count;
  const float *x, *dy, *gamma, *moments;
  float* dx;               // null: not needed
  double *dgamma, *dbeta;  // the vectors' parts are added
};

// Pixels of `channels` adjacent floats, `step` floats apart. At most kBatchNormChannels.
inline constexpr std::int64_t kBatchNormChannels = 16;
struct BatchNormRun {
  std::int64_t pixels, step, channels;
  bool relu;
};
struct BatchNormMoments {
  double count;  // of the pixels that have been measured
  // For each channel: the mean, and the sum of the squares of what differs from it.
  double mean[kBatchNormChannels], squares[kBatchNormChannels];
};
// y = relu((x - mean) * scale + shift); scale is gamma * inverse. With dy' = dy where the relu has
// kept the result, else 0: dx = scale * (dy' - offset - (x - mean) * slope).
struct BatchNormFactors {
  float mean[kBatchNormChannels], inverse[kBatchNormChannels];
  float scale[kBatchNormChannels], shift[kBatchNormChannels];
  float offset[kBatchNormChannels], slope[kBatchNormChannels];
};
struct BatchNormSums {
  double dgamma[kBatchNormChannels], dbeta[kBatchNormChannels];
};

// c = a b, or c += a b: a is m x k, b is k x n, c's rows are contiguous. Strides are in floats.
struct Product {
  std::int64_t m, n, k;
  const float* a;
  std::int64_t a_row, a_column;
  const float* b;
  std::int64_t b_row, b_column;
  float* c;
  std::int64_t c_row;
  bool add;
};
inline constexpr std::int64_t kProductScratchFloats = 256 * (96 + 256);

struct AdamFactors {
  float rate;  // bias-corrected
  float beta1, beta2, epsilon;
  float decay;      // learning rate x weight decay
  float scale = 1;  // of the gradient
};
struct SgdFactors {
  float rate, momentum, decay;
  float scale = 1;  // decay and scale as in AdamFactors
  bool nesterov;
};
struct RmspropFactors {
  float rate, rho, epsilon, momentum, decay;
  float scale = 1;  // decay and scale as in AdamFactors
};
struct AdagradFactors {
  float rate, epsilon, decay;
  float scale = 1;  // decay and scale as in AdamFactors
};

struct LarsFactors {
  float rate;  // learning rate x trust
  float momentum;
  float decay;      // of the weights, or 0
  float scale = 1;  // as in AdamFactors
  bool nesterov;
};
struct LambFactors {
  float rate;  // learning rate x trust
  float beta1, beta2, epsilon, m_correction, v_correction;
  float decay;      // of the weights, or 0
  float scale = 1;  // as in AdamFactors
};
struct MuonFactors {
  float momentum;
  float scale = 1;  // as in AdamFactors
  bool nesterov;
};

// The kernels, in a struct for each source, which defines Fill(part) for it.

struct ActivationKernels {
  // y = f(x); keeps NaN. y may be x. `slope` is kLeakyRelu's.
  void (*activate)(Activation activation, float slope, const float* x, float* y, std::int64_t size);
  // dx = dy * f'(x). dx may be dy.
  void (*activate_backward)(Activation activation, float slope, const float* x, const float* dy,
                            float* dx, std::int64_t size);
};

struct ElementwiseKernels {
  // dy = y > 0 ? dy : 0
  void (*mask_by_relu)(const float* y, float* dy, std::int64_t size);
  // y = a + b, or max(a + b, 0); keeps NaN. y may be a or b.
  void (*add)(const float* a, const float* b, float* y, std::int64_t size, bool relu);
  // y = x in another type; see trainer/core/half.h.
  void (*to_bfloat16)(const float* x, std::uint16_t* y, std::int64_t size);
  void (*from_bfloat16)(const std::uint16_t* x, float* y, std::int64_t size);
  void (*to_float16)(const float* x, std::uint16_t* y, std::int64_t size);
  void (*from_float16)(const std::uint16_t* x, float* y, std::int64_t size);
  // The relus above for a 16-bit floating-point type, whose infinity has these bits. In place.
  void (*half_relu)(std::uint16_t* y, std::int64_t size, std::uint16_t infinity);
  void (*half_mask_by_relu)(const std::uint16_t* y, std::uint16_t* dy, std::int64_t size,
                            std::uint16_t infinity);
  // y = (x - center) * factor
  void (*scale_bytes)(const std::uint8_t* x, float* y, std::int64_t size, float center,
                      float factor);
};

// Pools over contiguous planes. `chosen` is the tap (row-major in the window) that receives dy,
// or the number of taps if none does (relu). Requires fewer than 255 taps with uint8_t, fewer
// than 2^31 with uint32_t.
struct PoolKernels {
  void (*max_pool)(const WindowShape& shape, const float* x, float* y, std::uint8_t* chosen,
                   std::int64_t planes);
  void (*max_pool_backward)(const WindowShape& shape, const float* dy, const std::uint8_t* chosen,
                            float* dx, std::int64_t planes);
  void (*max_pool_wide)(const WindowShape& shape, const float* x, float* y, std::uint32_t* chosen,
                        std::int64_t planes);
  void (*max_pool_wide_backward)(const WindowShape& shape, const float* dy,
                                 const std::uint32_t* chosen, float* dx, std::int64_t planes);
  void (*average_pool)(const WindowShape& shape, const float* x, float* y, std::int64_t planes);
  void (*average_pool_backward)(const WindowShape& shape, const float* dy, float* dx,
                                std::int64_t planes);
};

// Unlike the kernels above, these and those of the next structs, up to WinogradGradientKernels, may
// differ in the last bits between instruction sets. Each element's sum has a fixed order, whatever
// the other extents are.
struct ProductKernels {
  // `scratch` has kProductScratchFloats.
  void (*multiply)(const Product& product, float* scratch);
};

// Depthwise convolutions of planes of height x width x inner floats, with taps x inner weights.
struct DepthwiseKernels {
  // Computes the given rows of y = act(bias + sum over the taps of x * weight). `bias` has `inner`
  // floats, or is null.
  void (*depthwise)(const WindowShape& shape, const float* x, const float* weight,
                    const float* bias, float* y, RowRange rows);
  // Rows of dx = the sum over the windows of dy * weight.
  void (*depthwise_data)(const WindowShape& shape, const float* dy, const float* weight, float* dx,
                         RowRange rows);
  // Adds to `sums`, taps x inner, and `bias`, inner, what output rows add to the gradients.
  void (*depthwise_weight)(const WindowShape& shape, const float* x, const float* dy, float* sums,
                           float* bias, RowRange rows);
  // For the plane of one channel, whose pixels are shape.inner floats apart in x and y_step in y,
  // with a weight for each tap. The gradients are added to dx, sums and *bias.
  void (*depthwise_plane)(const WindowShape& shape, const float* x, const float* weight, float bias,
                          float* y, std::int64_t y_step);
  void (*depthwise_plane_data)(const WindowShape& shape, const float* dy, std::int64_t y_step,
                               const float* weight, float* dx);
  void (*depthwise_plane_weight)(const WindowShape& shape, const float* x, const float* dy,
                                 std::int64_t y_step, float* sums, float* bias);
};

struct LayerNormKernels {
  void (*layer_norm)(const LayerNormShape& shape, const LayerNormPass& pass);
  void (*layer_norm_backward)(const LayerNormShape& shape, const LayerNormGradient& pass);
};

struct BatchNormKernels {
  // Adds the run to the moments.
  void (*batch_norm_measure)(const BatchNormRun& run, const float* x, BatchNormMoments& moments);
  void (*batch_norm)(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
                     float* y);
  // Adds the run's part of the sums of dy' and of dy' * (x - mean) * inverse.
  void (*batch_norm_sums)(const BatchNormRun& run, const BatchNormFactors& factors, const float* x,
                          const float* dy, BatchNormSums& sums);
  // dx may be dy.
  void (*batch_norm_backward)(const BatchNormRun& run, const BatchNormFactors& factors,
                              const float* x, const float* dy, float* dx);
};

struct FewChannelKernels {
  // Adds one image's part to sum (blocks x channels x kernel_h x kernel_w x lanes) and to bias
  // (blocks x lanes).
  void (*few_channel_gradient)(const FewChannelShape& shape, const float* x, const float* dy,
                               float* sum, float* bias);
};

struct WinogradKernels {
  // Writes the block's channels of y for the given tiles, which are numbered over all images and
  // row-major within one. Each element's sum has a fixed order, however tiles and channels are
  // divided. `block` is the result of winograd_weight. `scratch` has kWinogradSide ^ 2 matrices of
  // rows * channels of x + kWinogradGap floats, and as many of rows * 2 * lanes.
  void (*winograd)(const WinogradShape& shape, const WinogradTiles& tiles, const float* x,
                   const WinogradBlock& block, float* y, float* scratch);
  // Writes a WinogradBlock's weight: kWinogradSide ^ 2 * in_channels floats for each of its
  // channels. The concatenated weights of adjacent blocks are the weight of the combined block.
  void (*winograd_weight)(const WinogradWeight& shape, std::int64_t first_vector,
                          std::int64_t last_vector, const float* weight, float* transformed);
};

struct WinogradGradientKernels {
  // Adds the tiles' part of the weight's transformed gradient to `sums` (kWinogradSide ^ 2 *
  // channels of x * channels of y floats), and the sum of dy to the floats after it (channels of
  // y). `scratch` has kWinogradSide ^ 2 matrices of rows * channels + kWinogradGap floats for x and
  // as many for y, then one float per channel of y.
  void (*winograd_gradient)(const WinogradShape& shape, const WinogradTiles& tiles, const float* x,
                            const float* dy, float* sums, float* scratch);
  // Sums the parts and writes the gradient, row-major, for x's channels [first_channel,
  // last_channel).
  void (*winograd_gradient_weight)(const WinogradShape& shape, const WinogradParts& parts,
                                   std::int64_t first_channel, std::int64_t last_channel,
                                   float* weight);
};

struct OptimizerKernels {
  void (*adam)(const AdamFactors& factors, const float* gradient, float* value, float* m, float* v,
               std::int64_t size);
  // `velocity` is null without momentum.
  void (*sgd)(const SgdFactors& factors, const float* gradient, float* value, float* velocity,
              std::int64_t size);
  // `velocity` is null without momentum.
  void (*rmsprop)(const RmspropFactors& factors, const float* gradient, float* value, float* square,
                  float* velocity, std::int64_t size);
  void (*adagrad)(const AdagradFactors& factors, const float* gradient, float* value, float* sum,
                  std::int64_t size);
};

struct TrustOptimizerKernels {
  TrustSquares (*lars_squares)(const LarsFactors& factors, const float* gradient,
                               const float* value, std::int64_t size);
  // `velocity` is null without momentum.
  void (*lars)(const LarsFactors& factors, const float* gradient, float* value, float* velocity,
               std::int64_t size);
  // Updates m and v, and measures the update that `lamb` makes of them.
  TrustSquares (*lamb_moments)(const LambFactors& factors, const float* gradient,
                               const float* value, float* m, float* v, std::int64_t size);
  void (*lamb)(const LambFactors& factors, const float* m, const float* v, float* value,
               std::int64_t size);
};

struct MuonKernels {
  // Updates m and writes u (see MuonSpec), the sum of whose squares it returns.
  double (*muon_direction)(const MuonFactors& factors, const float* gradient, float* m, float* u,
                           std::int64_t size);
  // x /= divisor
  void (*divide)(float divisor, float* x, std::int64_t size);
  // y = a * x + b * y
  void (*combine)(float a, const float* x, float b, float* y, std::int64_t size);
};

// table.cc has each part filled. A new source of kernels needs its struct above, its place in
// Kernels, and its line in CMakeLists.txt.
template <typename... Parts>
struct KernelTable : Parts... {
  int lanes;  // floats in a register
};
using Kernels = KernelTable<ActivationKernels, ElementwiseKernels, PoolKernels, DepthwiseKernels,
                            ProductKernels, LayerNormKernels, BatchNormKernels, FewChannelKernels,
                            WinogradKernels, WinogradGradientKernels, OptimizerKernels,
                            TrustOptimizerKernels, MuonKernels>;

// Returns what this machine lacks for kBaseline, such as "SSE4.1", or "" if nothing.
const char* MissingForBaseline();
// Returns the widest instruction set of this machine, provided that it has kBaseline.
Isa BestIsa();
// Requires: the machine supports `isa`, since the table is made by code for it.
const Kernels& KernelsFor(Isa isa);
// "baseline", "avx2", "avx512".
const char* NameOf(Isa isa);

namespace baseline {
const Kernels& Table();
}
namespace avx2 {
const Kernels& Table();
}
namespace avx512 {
const Kernels& Table();
}

}  // namespace lockstep::train::cpu
