// Runs the optimizer of any back end from host values to host values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

inline constexpr std::size_t kNotAppliedStep = 7;  // counts from 1

struct OptimizerRun {
  std::int64_t size = 0;     // above 1000
  bool in_segments = false;  // three, of which one decays
};

struct OptimizerOutputs {
  std::vector<std::vector<float>> tensors;  // the values, and then the slots
  std::vector<bool> changed;                // for each step, whether it changed the values
};

// Wide, tall, adjacent and of one row; each lies in one segment.
std::vector<MatrixRange> MatricesToUpdate();

// Twenty steps with changing gradients, scales and learning rates, one of which does not apply.
OptimizerOutputs RunOptimizer(Backend& backend, const OptimizerRule& rule, const OptimizerRun& run);

}  // namespace lockstep::train
