#include "trainer/backend/reference/bound_optimizer.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {
namespace {

// See SgdSpec for the formula.
struct Sgd {
  static constexpr const char* kName = "sgd";
  SgdSpec spec;

  int Slots() const { return spec.momentum == 0 ? 0 : 1; }
  float Rate(const OptimizerStep& step) const { return step.learning_rate; }
  void Update(const OptimizerMemory& memory, std::int64_t i, float g, float rate) const {
    UpdateValue(spec, g, rate, memory.values[i],
                spec.momentum == 0 ? nullptr : memory.slots[0] + i);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const SgdSpec& spec) {
  return std::make_unique<BoundOptimizer<Sgd>>(Sgd{spec});
}

}  // namespace lockstep::train::reference
