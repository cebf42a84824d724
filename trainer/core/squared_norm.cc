#include "trainer/core/squared_norm.h"

#include <algorithm>
#include <cmath>

namespace lockstep::train {
namespace {

// Independent partial sums, so that the compiler can vectorize without reordering float additions.
constexpr std::size_t kLanes = 16;
// Values summed in float before the sum moves to double, to limit rounding errors.
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

double SquaredNormOfPart(std::span<const float> values, std::size_t part) {
  const std::size_t blocks = (values.size() + kBlock - 1) / kBlock;
  const std::size_t last = std::min(blocks * (part + 1) / kNormParts * kBlock, values.size());
  double sum = 0;
  for (std::size_t begin = blocks * part / kNormParts * kBlock; begin < last; begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, last - begin));
    double squares = SumOfSquares<float>(block);
    // The square of a finite float may overflow a float, but never a double.
    if (!std::isfinite(squares)) squares = SumOfSquares<double>(block);
    sum += squares;
  }
  return sum;
}

double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (std::size_t part = 0; part < kNormParts; ++part) sum += SquaredNormOfPart(values, part);
  return sum;
}

}  // namespace lockstep::train
