// The elementwise activations. Includes nothing, because the CPU's kernels are compiled per
// instruction set (see cpu/kernels/kernels.h).
#pragma once

namespace lockstep::train {

// As in Keras:
//   relu(x) = max(x, 0)               gelu(x) = x * Phi(x), Phi the normal distribution's CDF
//   silu(x) = x / (1 + exp(-x))       tanh(x)
enum class Activation { kRelu, kGelu, kSilu, kTanh };

}  // namespace lockstep::train
