// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, in the form just before
// section 2.1 ("the efficiency … can be improved"), as in Keras: epsilon is added to sqrt(v)
// without bias correction.
#include "trainer/backend/reference/bound_optimizer.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {
namespace {

struct Adam {
  static constexpr const char* kName = "adam";
  AdamSpec spec;

  int Slots() const { return 2; }
  float Rate(const OptimizerStep& step) const { return RateOf(spec, step); }
  void Update(const OptimizerMemory& memory, std::int64_t i, float g, float rate) const {
    UpdateValue(spec, g, rate, memory.values[i], memory.slots[0][i], memory.slots[1][i]);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const AdamSpec& spec) {
  return std::make_unique<BoundOptimizer<Adam>>(Adam{spec});
}

}  // namespace lockstep::train::reference
