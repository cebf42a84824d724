// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, as in Keras: see
// reference/adam.cc.
#include <cmath>

#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::cpu {
namespace {

// Computes base^exponent by squaring. std::pow may differ in the last bit between processors, but
// replicas on different processors must apply the same update.
double Power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

class Adam final : public OptimizerOp {
 public:
  Adam(const Device& device, const AdamSpec& spec) : device_(device), spec_(spec) {}
  int Slots() const override { return 2; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("adam", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const double rate = step.learning_rate * std::sqrt(1 - Power(spec_.beta2, step.step)) /
                        (1 - Power(spec_.beta1, step.step));
    const AdamFactors factors{.rate = static_cast<float>(rate),
                              .beta1 = spec_.beta1,
                              .beta2 = spec_.beta2,
                              .epsilon = spec_.epsilon,
                              .decay = step.learning_rate * spec_.weight_decay,
                              .scale = step.gradient_scale};
    ParallelForFloats(device_.threads, memory_.size, [&](std::int64_t first, std::int64_t last) {
      ForEachSegment(memory_, first, last, [&](std::int64_t begin, std::int64_t end, bool decays) {
        AdamFactors own = factors;
        if (!decays) own.decay = 0;
        device_.kernels.adam(own, memory_.gradients + begin, memory_.values + begin,
                             memory_.slots[0] + begin, memory_.slots[1] + begin, end - begin);
      });
    });
  }

 private:
  const Device& device_;
  AdamSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdamSpec& spec) {
  return std::make_unique<Adam>(device, spec);
}

}  // namespace lockstep::train::cpu
