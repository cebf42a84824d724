// A parameter's initial values: a pure function of the seed and its place in the model, the same on
// every backend.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Returns the values dense, in logical order. `ordinal` is the parameter's index in the model, in
// forward order. Glorot uniform (Glorot and Bengio, 2010) is as in Keras: U(-l, l) with
// l = sqrt(6 / (fan_in + fan_out)).
std::vector<float> InitialValues(const ParameterDesc& parameter, std::uint64_t seed,
                                 std::uint64_t ordinal);

}  // namespace lockstep::train
