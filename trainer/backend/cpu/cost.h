// What a primitive or a copy is expected to cost, so that an op can choose among orders of memory
// and implementations. An estimate depends on the shape, the implementation's name, the
// instruction set and the number of threads, never on a clock: on one kind of processor and with as
// many threads an op is made the same way in every run, so that a run that is resumed goes on bit
// for bit.
#pragma once

#include <cstddef>
#include <string_view>

#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu {

// True if `implementation` (oneDNN's impl_info_str) is one of oneDNN's plain loops, which are
// hundreds of times slower than anything else. ("gemm:ref", off x86, is a blocked matrix product.)
bool IsReference(std::string_view implementation);

// Seconds of one core for a convolution of `operations` additions and multiplications, on the
// machine of the table. On others all of these functions are off by about the same factor, and only
// sums of them are compared.
double ConvolutionSeconds(double operations, std::string_view implementation, Isa isa);

// The same for the gradient of the weight where x has few channels, by oneDNN or by
// FewChannelGradient: oneDNN fills its registers there only with AVX-512.
double FewChannelGradientSeconds(double operations, std::string_view implementation, Isa isa);

// A pass by Winograd's method. Its threads share out tiles, in batches that are filled up to
// kWinogradRows, and each reads the whole transformed weight for every batch. A large weight is
// transformed in blocks of channels of y, for each of which the tiles are transformed again.
struct WinogradWork {
  double in_channels, out_channels;
  double tiles;
  double rows;    // tiles of a batch
  double pieces;  // in which the weight is transformed
  double blocks;  // of the weight
  double threads;
  bool gradient;  // of the weight: each batch reads and writes all of its sums
};
// `threads` times what the last of them to end takes.
double WinogradSeconds(const WinogradWork& work, Isa isa);

// Seconds of one core to copy `bytes` from one order to another.
double CopySeconds(std::size_t bytes);

// Seconds of one core to read and write `floats` in a pool or an activation. `vectors` is false for
// row-major images, whose neighbours belong to different windows.
double PassSeconds(std::size_t floats, bool vectors);

}  // namespace lockstep::train::cpu
