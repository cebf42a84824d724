#include "trainer/backend/cpu/device/cost.h"

#include <cmath>

namespace lockstep::train::cpu {
namespace {

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct PerIsa {
  double baseline, avx2, avx512;
};
double At(Isa isa, const PerIsa& values) {
  switch (isa) {
    case Isa::kAvx512:
      return values.avx512;
    case Isa::kAvx2:
      return values.avx2;
    case Isa::kBaseline:
      break;
  }
  return values.baseline;
}

// A matrix product over patches ("x64:gemm:jit"): its name does not include the instruction set.
constexpr PerIsa kGemmGflops = {30, 65, 85};
// FewChannelGradient; its name includes the instruction set.
constexpr PerIsa kFewChannelGflops = {35, 100, 140};
// The matrix products of Winograd's method, and the seconds to transform one float of a tile.
constexpr PerIsa kWinogradGflops = {35, 100, 150};
constexpr PerIsa kWinogradTransform = {0.4e-9, 0.2e-9, 0.13e-9};

// Measured with oneDNN 3.2 on one core of a Xeon with AVX-512: convolutions of 32 to 256 channels,
// limited to each instruction set in turn.
double ConvolutionGflops(std::string_view implementation, Isa isa) {
  if (IsReference(implementation)) return 0.1;
  if (Has(implementation, "gemm")) return At(isa, kGemmGflops);
  if (Has(implementation, "avx512")) return 195;
  if (Has(implementation, "avx2")) return Has(implementation, "brg") ? 100 : 118;
  if (Has(implementation, "sse41")) return 42;
  return At(isa, kGemmGflops);  // unknown: another oneDNN version or processor
}

}  // namespace

bool IsReference(std::string_view implementation) {
  return implementation.starts_with("ref");
}

double ConvolutionSeconds(double operations, std::string_view implementation, Isa isa) {
  // More than the cost of any copy. Otherwise, in a small convolution, where copies dominate, a
  // plain loop could win over a fast pass in another order.
  const double last_resort = IsReference(implementation) ? 3600 : 0;
  return last_resort + operations / (1e9 * ConvolutionGflops(implementation, isa));
}

double FewChannelGradientSeconds(double operations, std::string_view implementation, Isa isa) {
  if (Has(implementation, "lockstep")) return operations / (1e9 * At(isa, kFewChannelGflops));
  // 42 GFLOP/s measured at AVX2 for one channel, 8 to 13 at SSE4.1.
  const double slowdown = Has(implementation, "avx512") ? 1 : 3;
  return slowdown * ConvolutionSeconds(operations, implementation, isa);
}

double WinogradSeconds(const WinogradWork& work, Isa isa) {
  constexpr double kArea = kWinogradSide * kWinogradSide;
  constexpr double kNearBytes = 512e3, kNearBytesPerSecond = 100e9, kFarBytesPerSecond = 30e9;
  constexpr double kSecondsPerKernel = 50e-9;
  const double pairs = work.in_channels * work.out_channels;
  const double weight = kArea * pairs * sizeof(float);
  const double rate = weight / work.blocks <= kNearBytes ? kNearBytesPerSecond : kFarBytesPerSecond;
  // For one thread.
  const double tiles = std::ceil(work.tiles / work.threads);
  const double filled = std::ceil(tiles / kWinogradRows) * kWinogradRows;
  const double products = kArea * filled * 2 * pairs / (1e9 * At(isa, kWinogradGflops));
  const double copies = kArea * tiles * (work.blocks * work.in_channels + work.out_channels) *
                        At(isa, kWinogradTransform);
  const double reads = std::ceil(tiles / work.rows) * weight * (work.gradient ? 2 : 1) / rate;
  const double transform = work.blocks * std::ceil(work.pieces / work.blocks / work.threads) /
                           work.pieces * pairs * kSecondsPerKernel;
  return work.threads * (products + copies + reads + transform);
}

double CopySeconds(std::size_t bytes) {
  constexpr double kBytesPerSecond = 4e9;  // each byte is read and written
  return static_cast<double>(bytes) / kBytesPerSecond;
}

double PassSeconds(std::size_t floats, bool vectors) {
  return static_cast<double>(floats) * (vectors ? 0.3e-9 : 2e-9);
}

}  // namespace lockstep::train::cpu
