#include "trainer/check/relu_jumps.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::train {
namespace {

// Removes the relu that is fused into an op that adds. True if it had one.
bool DropRelu(OpSpec& spec) {
  return std::visit(
      [](auto& op) {
        using Spec = std::remove_reference_t<decltype(op)>;
        if constexpr (requires { op.relu; } && !std::is_same_v<Spec, Pool2dSpec>) {
          return std::exchange(op.relu, false);
        } else {
          return false;
        }
      },
      spec);
}

}  // namespace

void ZeroGradientNearJumps(OpSpec spec, const StepSettings& step, float near, OpInputs& inputs) {
  if (!DropRelu(spec)) return;
  const auto oracle = MakeBackend({.name = "reference"});
  const std::vector<float> y =
      RunOp(*oracle, *oracle->MakeOp(spec), inputs, step, Passes::kForward).y;
  float largest = 1;
  for (const float value : y) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (std::abs(y[i]) < near * largest) inputs.dy[i] = 0;
  }
}

}  // namespace lockstep::train
