// Runs the decision about an update on any back end, from host values to host values.
#pragma once

#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

struct UpdateInputs {
  UpdateSettings settings = {};
  bool is_summed = true;
  std::vector<float> gradients = {1.0f};
  StepTail tail = {};
  UpdateGate gate = {};
};

struct UpdateOutputs {
  StepResult result;
  OptimizerStep update;
  UpdateGate gate;
  std::vector<float> states;  // {1}: those of the sum; {2}: those saved before the step
};

UpdateOutputs RunUpdate(Backend& backend, const UpdateInputs& inputs);

}  // namespace lockstep::train
