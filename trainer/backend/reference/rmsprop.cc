#include <cmath>

#include "trainer/backend/reference/ops.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::reference {
namespace {

// See RmspropSpec for the formula.
class Rmsprop final : public OptimizerOp {
 public:
  explicit Rmsprop(const RmspropSpec& spec) : spec_(spec) {}
  int Slots() const override { return spec_.momentum == 0 ? 1 : 2; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("rmsprop", memory, Slots());
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
    float& square = memory_.slots[0][i];
    value -= decay * value;
    square += (1 - spec_.rho) * (g * g - square);
    const float move = rate * g / std::sqrt(square + spec_.epsilon);
    if (spec_.momentum == 0) {
      value -= move;
      return;
    }
    float& velocity = memory_.slots[1][i];
    velocity = spec_.momentum * velocity + move;
    value -= velocity;
  }

  RmspropSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const RmspropSpec& spec) {
  return std::make_unique<Rmsprop>(spec);
}

}  // namespace lockstep::train::reference
