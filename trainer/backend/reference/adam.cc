// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, in the form just before
// section 2.1 ("the efficiency … can be improved"), as in Keras: epsilon is added to sqrt(v)
// without bias correction.
#include <cmath>

#include "trainer/backend/reference/ops.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::reference {
namespace {

class Adam final : public OptimizerOp {
 public:
  explicit Adam(const AdamSpec& spec) : spec_(spec) {}
  int Slots() const override { return 2; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("adam", memory, Slots());
    memory_ = memory;
  }

  // m += (1 - b1) * (g - m), v += (1 - b2) * (g * g - v), w -= lr_t * m / (sqrt(v) + epsilon)
  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const double t = static_cast<double>(step.step);
    const float rate =
        static_cast<float>(step.learning_rate * std::sqrt(1 - std::pow(double{spec_.beta2}, t)) /
                           (1 - std::pow(double{spec_.beta1}, t)));
    ForEachSegment(memory_, 0, memory_.size,
                   [&](std::int64_t begin, std::int64_t end, bool decays) {
                     const float decay = decays ? step.learning_rate * spec_.weight_decay : 0;
                     for (std::int64_t i = begin; i < end; ++i) {
                       Update(i, step.gradient_scale * memory_.gradients[i], rate, decay);
                     }
                   });
  }

 private:
  void Update(std::int64_t i, float g, float rate, float decay) {
    float& value = memory_.values[i];
    float& m = memory_.slots[0][i];
    float& v = memory_.slots[1][i];
    value -= decay * value;
    m += (1 - spec_.beta1) * (g - m);
    v += (1 - spec_.beta2) * (g * g - v);
    value -= rate * m / (std::sqrt(v) + spec_.epsilon);
  }

  AdamSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const AdamSpec& spec) {
  return std::make_unique<Adam>(spec);
}

}  // namespace lockstep::train::reference
