#include <cmath>

#include "trainer/backend/reference/bound_optimizer.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// See RmspropSpec for the formula.
struct Rmsprop {
  static constexpr const char* kName = "rmsprop";
  RmspropSpec spec;

  int Slots() const { return spec.momentum == 0 ? 1 : 2; }
  float Rate(const OptimizerStep& step) const { return step.learning_rate; }
  void Update(const OptimizerMemory& memory, std::int64_t i, float g, float rate) const {
    float& value = memory.values[i];
    float& square = memory.slots[0][i];
    square += (1 - spec.rho) * (g * g - square);
    const float move = rate * g / std::sqrt(square + spec.epsilon);
    if (spec.momentum == 0) {
      value -= move;
      return;
    }
    float& velocity = memory.slots[1][i];
    velocity = spec.momentum * velocity + move;
    value -= velocity;
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const RmspropSpec& spec) {
  return std::make_unique<BoundOptimizer<Rmsprop>>(Rmsprop{spec});
}

}  // namespace lockstep::train::reference
