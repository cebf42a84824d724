// TF_CONFIG, as TensorFlow's TFConfigClusterResolver reads it.
#pragma once

#include <string>

#include "operator/controller/addresses.h"
#include "operator/controller/replicas.h"

namespace lockstep::controller {

// Compact JSON as `replica` sees it. The evaluator stands in its own view only (TensorFlow 2 hangs
// otherwise). Workers and parameter servers of an elastic ParameterServer job get the sparse form:
// of the workers only themselves, so that the others may come and go.
std::string TfConfig(const api::TrainingJob& job, const Addresses& addresses,
                     const Replica& replica);

}  // namespace lockstep::controller
