// Runs one op on any back end from dense inputs to dense outputs, so that whoever compares numbers
// never sees a layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// x and dx hold an op's inputs one after the other.
struct OpInputs {
  std::vector<float> x, dy;
  std::vector<std::vector<float>> parameters, states;
};

// A step's settings, with the mode.
struct StepSettings {
  bool training = true;
  std::int64_t valid = 0;
  std::uint64_t step = 0, seed = 0, first_position = 0;

  Mode mode() const { return training ? Mode::kTraining : Mode::kEvaluation; }
  StepContext context() const {
    return {.valid = valid, .step = step, .seed = seed, .first_position = first_position};
  }
};

struct OpOutputs {
  std::vector<float> y, dx;
  std::vector<std::vector<float>> gradients, states;  // states as Forward left them
  // Which element that a layout adds to y or dx is not zero, although others compute with it;
  // empty if all are.
  std::string padding_fault;
  // Which value Op::Restore has not left as Forward did; empty if none, or if it was not run.
  std::string restore_fault;
};

// Values in [-1, 1), the same for the same stream.
std::vector<float> RandomValues(std::int64_t size, std::uint64_t stream);

// Random x, dy and parameters of the op's shapes; states (variances among them) are in [0.5, 1.5).
OpInputs RandomInputs(const Op& op, std::uint64_t stream);

// What RunOp runs. In evaluation it is Forward alone, whatever is asked for.
enum class Passes {
  kForward,  // in training too: outputs.dx and outputs.gradients stay empty
  kWithoutInputGradient,
  kAll,
};

// Converts, binds, runs Forward and, if step.training, Restore and Backward. Every buffer that the
// op writes starts as NaN, so that what it forgets to write shows.
OpOutputs RunOp(Backend& backend, Op& op, const OpInputs& inputs, const StepSettings& step,
                Passes passes = Passes::kAll);

// What the back end's convolutions put out for `shape`, if that is an image's; else dense.
TensorDesc NativeDesc(Backend& backend, const Shape& shape, DType type = DType::kFloat32);

}  // namespace lockstep::train
