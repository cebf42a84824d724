// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, in the form just before
// section 2.1 ("the efficiency … can be improved"), as in Keras: epsilon is added to sqrt(v)
// without bias correction.
#include <cmath>

#include "trainer/backend/reference/bound_optimizer.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

struct Adam {
  static constexpr const char* kName = "adam";
  AdamSpec spec;

  int Slots() const { return 2; }
  float Rate(const OptimizerStep& step) const {
    const double t = static_cast<double>(step.step);
    return static_cast<float>(step.learning_rate * std::sqrt(1 - std::pow(double{spec.beta2}, t)) /
                              (1 - std::pow(double{spec.beta1}, t)));
  }
  // m += (1 - b1) * (g - m), v += (1 - b2) * (g * g - v), w -= rate * m / (sqrt(v) + epsilon)
  void Update(const OptimizerMemory& memory, std::int64_t i, float g, float rate) const {
    float& m = memory.slots[0][i];
    float& v = memory.slots[1][i];
    m += (1 - spec.beta1) * (g - m);
    v += (1 - spec.beta2) * (g * g - v);
    memory.values[i] -= rate * m / (std::sqrt(v) + spec.epsilon);
  }
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const AdamSpec& spec) {
  return std::make_unique<BoundOptimizer<Adam>>(Adam{spec});
}

}  // namespace lockstep::train::reference
