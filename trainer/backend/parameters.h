// What parameters an op has: the same on every back end, since checkpoints go from one to another.
#pragma once

#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// weight (K,C,R,S), and bias (K) if there is one.
std::vector<ParameterDesc> ParametersOf(const Conv2dSpec& spec);
// weight (units, features of x), and bias (units) if there is one.
std::vector<ParameterDesc> ParametersOf(const DenseSpec& spec);

}  // namespace lockstep::train
