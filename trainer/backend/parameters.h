// The parameters and states of an op: the same on every back end, so that checkpoints are portable.
#pragma once

#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Both are empty for an op that has none. What they are is said where they are described, in
// parameters.cc. Requires: the spec's `x` is set.
std::vector<ParameterDesc> ParametersOf(const OpSpec& spec);
std::vector<ParameterDesc> StatesOf(const OpSpec& spec);

}  // namespace lockstep::train
