// The sum of squares, in parts that threads can compute. Pure.
#pragma once

#include <cstddef>
#include <span>

namespace lockstep::train {

inline constexpr std::size_t kNormParts = 64;

// Returns the sum of squares of part `part` < kNormParts. It is finite if and only if all of the
// part's values are. The partition depends only on the size.
double SquaredNormOfPart(std::span<const float> values, std::size_t part);

// Returns the sum of the parts in order. Bitwise equal to the sum of parts that threads computed.
double SquaredNorm(std::span<const float> values);

}  // namespace lockstep::train
