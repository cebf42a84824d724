// Whether numbers are still numbers. Pure.
#pragma once

#include <span>

namespace lockstep::train {

// The sum of squares; not finite exactly if one of the values is not. Bitwise equal wherever the
// values are.
double SquaredNorm(std::span<const float> values);

bool AllFinite(std::span<const float> values);

}  // namespace lockstep::train
