#include "trainer/backend/reference/bound_optimizer.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {
namespace {

// See RmspropSpec for the formula.
struct Rmsprop {
  static constexpr const char* kName = "rmsprop";
  RmspropSpec spec;

  int Slots() const { return spec.momentum == 0 ? 1 : 2; }
  float Rate(const OptimizerStep& step) const { return step.learning_rate; }
  void Update(const OptimizerMemory& memory, std::int64_t i, float g, float rate) const {
    UpdateValue(spec, g, rate, memory.values[i], memory.slots[0][i],
                spec.momentum == 0 ? nullptr : memory.slots[1] + i);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const RmspropSpec& spec) {
  return std::make_unique<BoundOptimizer<Rmsprop>>(Rmsprop{spec});
}

}  // namespace lockstep::train::reference
