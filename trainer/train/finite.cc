#include "trainer/train/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lockstep::train {
namespace {

// Independent sums, so that the compiler may use vectors: it must not reorder float additions.
constexpr std::size_t kLanes = 16;
// Floats that are added before doubles take over: keeps the rounding small.
constexpr std::size_t kBlock = 4096;

template <typename Number>
double SumOfSquares(std::span<const float> values) {
  Number lanes[kLanes] = {};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Number value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (const Number lane : lanes) sum += static_cast<double>(lane);
  for (const float value : values.subspan(whole)) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

}  // namespace

double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    double part = SumOfSquares<float>(block);
    // The square of a finite float may be too large for a float, but never for a double.
    if (!std::isfinite(part)) part = SumOfSquares<double>(block);
    sum += part;
  }
  return sum;
}

bool AllFinite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinity or NaN
  std::uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
  }
  return found == 0;
}

}  // namespace lockstep::train
