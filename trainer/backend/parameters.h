// The parameters and states of an op: the same on every back end, so that checkpoints are portable.
#pragma once

#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// weight (K,C,R,S), and bias (K) if spec.bias.
std::vector<ParameterDesc> ParametersOf(const Conv2dSpec& spec);
// weight (C*M,1,R,S), and bias (C*M) if spec.bias.
std::vector<ParameterDesc> ParametersOf(const DepthwiseConv2dSpec& spec);
// weight (units, features of x), and bias (units) if spec.bias.
std::vector<ParameterDesc> ParametersOf(const DenseSpec& spec);
// gamma (C) and beta (C).
std::vector<ParameterDesc> ParametersOf(const BatchNormSpec& spec);
// mean (C) and variance (C).
std::vector<ParameterDesc> StatesOf(const BatchNormSpec& spec);
// gamma (C) if spec.scale, and beta (C) if spec.center.
std::vector<ParameterDesc> ParametersOf(const LayerNormSpec& spec);

}  // namespace lockstep::train
