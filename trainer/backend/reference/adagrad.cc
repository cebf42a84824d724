#include "trainer/backend/reference/bound_optimizer.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {
namespace {

// See AdagradSpec for the formula.
struct Adagrad {
  static constexpr const char* kName = "adagrad";
  AdagradSpec spec;

  int Slots() const { return 1; }
  float Rate(const OptimizerStep& step) const { return step.learning_rate; }
  void Update(const OptimizerMemory& memory, std::int64_t i, float g, float rate) const {
    UpdateValue(spec, g, rate, memory.values[i], memory.slots[0][i]);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const AdagradSpec& spec) {
  return std::make_unique<BoundOptimizer<Adagrad>>(Adagrad{spec});
}

}  // namespace lockstep::train::reference
