#include "trainer/data/mix_up.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

constexpr double kLn2 = 0.6931471805599453;

// Two words as a number in (0, 1), in steps of 2^-53.
double Uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 12;  // 52 bits
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

// Johnk: x = u^(1/alpha) and y = v^(1/alpha) until x + y <= 1; then x / (x + y). In logarithms,
// because both may be too small for a double.
bool TryJohnk(double alpha, double u, double v, double& beta) {
  const double log_x = PortableLog(u) / alpha, log_y = PortableLog(v) / alpha;
  const double larger = std::max(log_x, log_y);
  // Below -600 of the larger, the smaller adds nothing.
  const auto part = [&](double value) {
    return value - larger < -600 ? 0.0 : PortableExp(value - larger);
  };
  const double x = part(log_x), y = part(log_y);  // over the larger one, which is 1
  if (larger > -1 && (x + y) * PortableExp(larger) > 1) return false;
  beta = x / (x + y);
  return true;
}

// Cheng's BB with equal shapes.
bool TryCheng(double alpha, double u, double v, double& beta) {
  constexpr double kLn4 = 2 * kLn2, kOnePlusLn5 = 2.6094379124341003;
  const double slope = 1 / std::sqrt(alpha);  // sqrt((2a - 2) / (2a^2 - 2a)) with a = b
  const double log_odds = slope * PortableLog(u / (1 - u));
  if (std::abs(log_odds) > 600) return false;
  const double w = alpha * PortableExp(log_odds), z = u * u * v;
  const double r = (alpha + 1 / slope) * log_odds - kLn4;
  const double s = alpha + r - w;
  beta = w / (alpha + w);
  if (s + kOnePlusLn5 >= 5 * z) return true;
  const double t = PortableLog(z);
  return s >= t || r + 2 * alpha * PortableLog(2 * alpha / (alpha + w)) >= t;
}

std::uint8_t Mean(std::uint32_t weight, std::uint32_t own, std::uint32_t other) {
  return static_cast<std::uint8_t>((weight * own + (kMixUnit - weight) * other + kMixUnit / 2) /
                                   kMixUnit);
}

}  // namespace

// ln(m * 2^e) with m in [1/sqrt(2), sqrt(2)), by the series of 2 * artanh((m - 1) / (m + 1)).
double PortableLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.7071067811865476) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * kLn2;
}

// 2^k * exp(r) with r in [-ln(2) / 2, ln(2) / 2], by Taylor's series.
double PortableExp(double x) {
  const double k = std::floor(x / kLn2 + 0.5);
  const double r = x - k * kLn2;
  double sum = 1;
  for (int n = 18; n >= 1; --n) sum = 1 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

std::int64_t PartnerOf(std::int64_t position, std::int64_t samples) {
  const std::int64_t partner = position ^ 1;
  return partner < samples ? partner : std::max<std::int64_t>(0, position - 1);
}

std::uint32_t DrawMix(double alpha, std::uint64_t seed, std::uint64_t epoch,
                      std::int64_t position) {
  LOCKSTEP_CHECK(alpha > 0, "mix-up: alpha is {}", alpha);
  const std::uint64_t key = DeriveKey(seed, epoch);
  alpha = std::max(alpha, 1e-6);  // below, each weight is 0 or 1, and logarithms would overflow
  double beta = 0;
  // Numbers 0 and 1 of a position are those of other changes: see DrawAugmentation.
  for (std::uint64_t number = 2;; ++number) {
    const PhiloxBlock words = Philox(key, static_cast<std::uint64_t>(position), number);
    const double u = Uniform(words[0], words[1]), v = Uniform(words[2], words[3]);
    if (alpha <= 1 ? TryJohnk(alpha, u, v, beta) : TryCheng(alpha, u, v, beta)) break;
  }
  return static_cast<std::uint32_t>(std::lround(beta * kMixUnit));
}

void MixBytes(std::uint32_t weight, std::span<const std::uint8_t> partner,
              std::span<std::uint8_t> sample) {
  for (std::size_t i = 0; i < sample.size(); ++i) sample[i] = Mean(weight, sample[i], partner[i]);
}

void MixNumbers(float share, std::span<const float> partner, std::span<float> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = share * numbers[i] + (1 - share) * partner[i];
  }
}

void MixPair(std::uint32_t weight_a, std::uint32_t weight_b, std::span<std::uint8_t> a,
             std::span<std::uint8_t> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint8_t own = a[i], other = b[i];
    a[i] = Mean(weight_a, own, other);
    b[i] = Mean(weight_b, other, own);
  }
}

}  // namespace lockstep::train
