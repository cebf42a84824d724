// The elementwise activations. Includes nothing, because the CPU's kernels are compiled per
// instruction set (see cpu/kernels/kernels.h).
#pragma once

namespace lockstep::train {

// As in Keras:
//   relu(x) = max(x, 0)               gelu(x) = x * Phi(x), Phi the normal distribution's CDF
//   silu(x) = x / (1 + exp(-x))       tanh(x)
//   leaky_relu(x) = x < 0 ? slope * x : x, whose derivative at 0 is the slope
enum class Activation { kRelu, kGelu, kSilu, kTanh, kLeakyRelu };

// The slope of leaky_relu chosen by its name. The layer LeakyReLU has another default.
inline constexpr float kLeakyReluSlope = 0.2f;

}  // namespace lockstep::train
