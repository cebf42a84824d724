// How a parameter starts: a pure function of seed and place in the model, whatever the back end.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Dense, in logical order. `ordinal` counts the model's parameters in forward order. Glorot uniform
// (Glorot and Bengio, 2010) is Keras': U(-l, l) with l = sqrt(6 / (fan_in + fan_out)).
std::vector<float> InitialValues(const ParameterDesc& parameter, std::uint64_t seed,
                                 std::uint64_t ordinal);

}  // namespace lockstep::train
