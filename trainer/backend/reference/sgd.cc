#include "trainer/backend/reference/ops.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::reference {
namespace {

// See SgdSpec for the formula.
class Sgd final : public OptimizerOp {
 public:
  explicit Sgd(const SgdSpec& spec) : spec_(spec) {}
  int Slots() const override { return spec_.momentum == 0 ? 0 : 1; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("sgd", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    ForEachSegment(memory_, 0, memory_.size,
                   [&](std::int64_t begin, std::int64_t end, bool decays) {
                     const float decay = decays ? step.learning_rate * spec_.weight_decay : 0;
                     for (std::int64_t i = begin; i < end; ++i) {
                       const float g = step.gradient_scale * memory_.gradients[i];
                       Update(i, -step.learning_rate * g, decay);
                     }
                   });
  }

 private:
  void Update(std::int64_t i, float move, float decay) {
    float& value = memory_.values[i];
    value -= decay * value;
    if (spec_.momentum == 0) {
      value += move;
      return;
    }
    float& velocity = memory_.slots[0][i];
    velocity = spec_.momentum * velocity + move;
    value += spec_.nesterov ? spec_.momentum * velocity + move : velocity;
  }

  SgdSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const SgdSpec& spec) {
  return std::make_unique<Sgd>(spec);
}

}  // namespace lockstep::train::reference
