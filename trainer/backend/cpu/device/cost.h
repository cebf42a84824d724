// Estimates the costs of primitives and copies, so that an op can choose memory orders and
// implementations. An estimate depends only on the shape, the implementation's name, the
// instruction set and the number of threads, never on a measurement. So for one kind of processor
// and number of threads every run chooses the same, and a resumed run continues bit for bit.
#pragma once

#include <cstddef>
#include <string_view>

#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

// True if `implementation` (oneDNN's impl_info_str) is one of oneDNN's plain loops, which are
// hundreds of times slower than all others. ("gemm:ref" on other processors than x86 is a blocked
// matrix product.)
bool IsReference(std::string_view implementation);

// Core seconds of a convolution of `operations` additions and multiplications, on the machine of
// the table in cost.cc. On other machines all of these functions are wrong by about the same
// factor, which does not affect comparisons of their sums.
double ConvolutionSeconds(double operations, std::string_view implementation, Isa isa);

// The same for the weight's gradient if x has few channels, by oneDNN or by FewChannelGradient. For
// this pass oneDNN fills its registers only with AVX-512.
double FewChannelGradientSeconds(double operations, std::string_view implementation, Isa isa);

// A pass by Winograd's method. Threads divide the tiles among them. Each processes its tiles in
// batches, padded to a multiple of kWinogradRows, and reads the whole transformed weight for every
// batch. A large weight is transformed in blocks of channels of y; for each block the tiles are
// transformed again.
struct WinogradWork {
  double in_channels, out_channels;
  double tiles;
  double rows;    // tiles per batch
  double pieces;  // units of work in which the weight is transformed
  double blocks;  // blocks of the weight
  double threads;
  bool gradient;  // the weight's gradient: each batch reads and writes all sums
};
// Core seconds: `threads` times the time of the slowest thread.
double WinogradSeconds(const WinogradWork& work, Isa isa);

// Core seconds to copy `bytes` from one order to another.
double CopySeconds(std::size_t bytes);

// Core seconds to read and write `floats` in a pool or an activation. `vectors` is false for
// row-major images, whose neighbours belong to different windows.
double PassSeconds(std::size_t floats, bool vectors);

}  // namespace lockstep::train::cpu
