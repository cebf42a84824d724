// Mix-up (Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018): a training sample
// becomes a weighted mean of itself and a partner, and so does its label. Pure functions of the
// seed, the epoch and the sample's position in it, as augment.h's are, so that any number of ranks
// or threads gives the same bits, and so does any processor.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::train {

// Positions 2k and 2k + 1 of an epoch are partners: its order is shuffled, so these are any two
// samples, and usually in one batch. The last of an odd number of samples is mixed with the one
// before it; an only sample is its own partner. Requires: 0 <= position < samples.
std::int64_t PartnerOf(std::int64_t position, std::int64_t samples);

// A sample's own weight, in units of 1 / kMixUnit; its partner's is the rest.
inline constexpr std::uint32_t kMixUnit = 1 << 16;

// Draws the weight of the sample at `position` of `epoch` from Beta(alpha, alpha). As in Keras'
// MixUp, each sample has a weight of its own. Rejection sampling: Johnk's algorithm for alpha <= 1,
// Cheng's BB ("Generating beta variates with nonintegral shape parameters", 1978) above. Requires:
// alpha > 0.
std::uint32_t DrawMix(double alpha, std::uint64_t seed, std::uint64_t epoch, std::int64_t position);

// Makes bytes means, rounded to the nearest: `sample` of itself and `partner`. Requires: equal
// sizes.
void MixBytes(std::uint32_t weight, std::span<const std::uint8_t> partner,
              std::span<std::uint8_t> sample);
// Does so with two partners at once.
void MixPair(std::uint32_t weight_a, std::uint32_t weight_b, std::span<std::uint8_t> a,
             std::span<std::uint8_t> b);

// The mean of two labels that are numbers.
void MixNumbers(float share, std::span<const float> partner, std::span<float> numbers);

// The weight as a number from 0 to 1.
inline float ShareOf(std::uint32_t weight) {
  return static_cast<float>(weight) / static_cast<float>(kMixUnit);
}

// For tests. The natural logarithm and exponential function to about 1e-15, made of operations that
// IEEE 754 rounds in one way only: a processor's library may round its own otherwise. Require:
// x > 0 and finite; -700 < x < 700.
double PortableLog(double x);
double PortableExp(double x);

}  // namespace lockstep::train
