#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::cpu {
namespace {

// See RmspropSpec for the formula.
class Rmsprop final : public OptimizerOp {
 public:
  Rmsprop(const Device& device, const RmspropSpec& spec) : device_(device), spec_(spec) {}
  int Slots() const override { return spec_.momentum == 0 ? 1 : 2; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("rmsprop", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const RmspropFactors factors{.rate = step.learning_rate,
                                 .rho = spec_.rho,
                                 .epsilon = spec_.epsilon,
                                 .momentum = spec_.momentum,
                                 .decay = step.learning_rate * spec_.weight_decay,
                                 .scale = step.gradient_scale};
    float* velocity = memory_.slots.size() > 1 ? memory_.slots[1] : nullptr;
    ParallelForFloats(device_.threads, memory_.size, [&](std::int64_t first, std::int64_t last) {
      ForEachSegment(memory_, first, last, [&](std::int64_t begin, std::int64_t end, bool decays) {
        RmspropFactors own = factors;
        if (!decays) own.decay = 0;
        device_.kernels.rmsprop(own, memory_.gradients + begin, memory_.values + begin,
                                memory_.slots[0] + begin,
                                velocity == nullptr ? nullptr : velocity + begin, end - begin);
      });
    });
  }

 private:
  const Device& device_;
  RmspropSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const RmspropSpec& spec) {
  return std::make_unique<Rmsprop>(device, spec);
}

}  // namespace lockstep::train::cpu
