// The sum of squares, in parts that threads can take. Pure.
#pragma once

#include <cstddef>
#include <span>

namespace lockstep::train {

inline constexpr std::size_t kNormParts = 64;

// Of part `part` below kNormParts: not finite exactly if one of its values is not. The parts are a
// function of the size alone.
double SquaredNormOfPart(std::span<const float> values, std::size_t part);

// The sum of the parts, in their order: bitwise equal wherever the values are, whoever adds up the
// parts.
double SquaredNorm(std::span<const float> values);

}  // namespace lockstep::train
