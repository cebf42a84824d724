// Vectorised single-threaded loops for what is memory traffic. Each source of this folder is
// compiled once for every instruction set below, so it may include nothing with inline functions
// that another translation unit might share (no standard containers or algorithms). Elementwise
// kernels give the same bits on every instruction set: replicas on different processors apply the
// same update to the same parameters, and must not drift apart.
#pragma once

#include <cstdint>

namespace lockstep::train::cpu {

// From the narrowest to the widest. kBaseline: SSE4.1, or what every processor of another
// architecture has (NEON on 64-bit ARM), which has no other.
enum class Isa { kBaseline, kAvx2, kAvx512 };

// A pool's window over one plane: height x width x inner, see ImageView.
struct PoolShape {
  std::int64_t in_h, in_w, out_h, out_w, inner;
  std::int64_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;  // pad: at the beginning
  bool relu;
};

// A convolution from few channels, one image. x is padded: channels planes of padded_h x padded_w,
// so that no window leaves it. dy is blocks x out_h x out_w x lanes (Kernels::lanes neighbours
// each), with strides in floats.
struct FewChannelShape {
  std::int64_t channels, kernel_h, kernel_w, stride_h, stride_w;
  std::int64_t padded_h, padded_w, out_h, out_w;
  std::int64_t blocks, block_stride, pixel_stride;
};

// A convolution of stride 1 by Winograd's method, as its kernels see it: `taps` x `taps` kernels, 3
// or 5. Images of several rows, of as many channels as fill registers; see ImageView.
struct WinogradImage {
  std::int64_t channels, height, width, inner;
};
struct WinogradShape {
  WinogradImage x, y;
  std::int64_t taps, pad_h, pad_w;  // pad: at the beginning
  std::int64_t rows;                // tiles at a time, a multiple of kWinogradRows
  const float* bias;                // of each channel of y, or null
  bool relu;
};
// Element (out, in, tap) of the weight is at out * out_stride + in * in_stride + tap; with
// `flipped` the taps are in reverse, as the gradient of x needs them.
struct WinogradWeight {
  std::int64_t in_channels, taps, out_stride, in_stride;
  bool flipped;
};
// The transformed weight of y's channels from first_vector * lanes to last_vector * lanes - 1;
// first_vector is even.
struct WinogradBlock {
  const float* weight;
  std::int64_t first_vector, last_vector;
};
// Sums of WinogradGradient that belong together, `stride` floats apart.
struct WinogradParts {
  const float* sums;
  std::int64_t count, stride;
};
struct WinogradTiles {
  std::int64_t first, last;  // `last` is not one of them
};
// A tile of x is a square of this side, one of y one of kWinogradSide + 1 - taps.
inline constexpr std::int64_t kWinogradSide = 6;
inline constexpr std::int64_t kWinogradRows = 12;
inline constexpr std::int64_t kWinogradGap = 16;  // floats after each matrix of tiles

// c = a b, or c += a b, of m x k and k x n matrices. Strides in floats; the rows of c are
// contiguous.
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
  float decay;  // learning rate x weight decay
};
struct SgdFactors {
  float rate, momentum, decay;  // decay as in AdamFactors
  bool nesterov;
};

struct Kernels {
  int lanes;  // floats in a register

  // y = max(x, 0), NaN kept
  void (*relu)(const float* x, float* y, std::int64_t size);
  // dy = y > 0 ? dy : 0
  void (*mask_by_relu)(const float* y, float* dy, std::int64_t size);
  // y = scale * x
  void (*scale_bytes)(const std::uint8_t* x, float* y, std::int64_t size, float scale);

  // Planes one after the other. `chosen` is the tap (row-major in the window) that dy goes to, or
  // the number of taps if none (relu). Windows have fewer than 255 taps for uint8.
  void (*max_pool)(const PoolShape& shape, const float* x, float* y, std::uint8_t* chosen,
                   std::int64_t planes);
  void (*max_pool_backward)(const PoolShape& shape, const float* dy, const std::uint8_t* chosen,
                            float* dx, std::int64_t planes);
  void (*max_pool_wide)(const PoolShape& shape, const float* x, float* y, std::uint16_t* chosen,
                        std::int64_t planes);
  void (*max_pool_wide_backward)(const PoolShape& shape, const float* dy,
                                 const std::uint16_t* chosen, float* dx, std::int64_t planes);
  void (*average_pool)(const PoolShape& shape, const float* x, float* y, std::int64_t planes);
  void (*average_pool_backward)(const PoolShape& shape, const float* dy, float* dx,
                                std::int64_t planes);

  // Sums, unlike the kernels above, differ in the last bits between instruction sets. Each
  // element's has one order, whatever the extents of the rest. `scratch`: kProductScratchFloats.
  void (*multiply)(const Product& product, float* scratch);
  // Adds one image's share to sum (blocks x channels x kernel_h x kernel_w x lanes) and to bias
  // (blocks x lanes): sums, as above.
  void (*few_channel_gradient)(const FewChannelShape& shape, const float* x, const float* dy,
                               float* sum, float* bias);
  // The block's channels of y, in tiles of all images, row-major within one: each element has one
  // order of sums, however tiles and channels are shared out. `block` as the next writes it.
  // `scratch`: kWinogradSide ^ 2 matrices of rows * channels of x + kWinogradGap floats, and as
  // many of rows * 2 * lanes.
  void (*winograd)(const WinogradShape& shape, const WinogradTiles& tiles, const float* x,
                   const WinogradBlock& block, float* y, float* scratch);
  // A WinogradBlock's weight: kWinogradSide ^ 2 * in_channels floats for each of its channels.
  // Those of neighbouring blocks, one after the other, are that of the block that they make.
  void (*winograd_weight)(const WinogradWeight& shape, std::int64_t first_vector,
                          std::int64_t last_vector, const float* weight, float* transformed);
  // Adds the tiles' share of the weight's gradient, transformed, to sums (kWinogradSide ^ 2 *
  // channels of x * channels of y floats), and dy to the floats after it (channels of y).
  // `scratch`: kWinogradSide ^ 2 matrices of rows * channels + kWinogradGap floats, of x and of y,
  // and as many floats as y has channels.
  void (*winograd_gradient)(const WinogradShape& shape, const WinogradTiles& tiles, const float* x,
                            const float* dy, float* sums, float* scratch);
  // The gradient itself, row-major, of channels first_channel to last_channel - 1 of x.
  void (*winograd_gradient_weight)(const WinogradShape& shape, const WinogradParts& parts,
                                   std::int64_t first_channel, std::int64_t last_channel,
                                   float* weight);

  void (*adam)(const AdamFactors& factors, const float* gradient, float* value, float* m, float* v,
               std::int64_t size);
  // `velocity` is null without momentum.
  void (*sgd)(const SgdFactors& factors, const float* gradient, float* value, float* velocity,
              std::int64_t size);
};

// Empty, or what this machine lacks even for kBaseline: such as "SSE4.1".
const char* MissingForBaseline();
// The widest that this machine has, if it lacks nothing for kBaseline.
Isa BestIsa();
// The machine must have `isa`.
const Kernels& KernelsFor(Isa isa);
// "baseline", "avx2", "avx512".
const char* NameOf(Isa isa);

namespace baseline {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}

}  // namespace lockstep::train::cpu
