#include <cmath>

#include "trainer/backend/reference/ops.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::reference {
namespace {

// See AdagradSpec for the formula.
class Adagrad final : public OptimizerOp {
 public:
  explicit Adagrad(const AdagradSpec& spec) : spec_(spec) {}
  int Slots() const override { return 1; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("adagrad", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    ForEachSegment(memory_, 0, memory_.size,
                   [&](std::int64_t begin, std::int64_t end, bool decays) {
                     const float decay = decays ? step.learning_rate * spec_.weight_decay : 0;
                     for (std::int64_t i = begin; i < end; ++i) {
                       Update(i, step.gradient_scale * memory_.gradients[i], decay);
                     }
                   });
  }

 private:
  void Update(std::int64_t i, float g, float decay) {
    const float rate = memory_.step->learning_rate;
    float& value = memory_.values[i];
    float& sum = memory_.slots[0][i];
    value -= decay * value;
    sum += g * g;
    value -= rate * g / std::sqrt(sum + spec_.epsilon);
  }

  AdagradSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const AdagradSpec& spec) {
  return std::make_unique<Adagrad>(spec);
}

}  // namespace lockstep::train::reference
