#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::cpu {
namespace {

// See SgdSpec for the formula.
class Sgd final : public OptimizerOp {
 public:
  Sgd(const Device& device, const SgdSpec& spec) : device_(device), spec_(spec) {}
  int Slots() const override { return spec_.momentum == 0 ? 0 : 1; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("sgd", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const SgdFactors factors{.rate = step.learning_rate,
                             .momentum = spec_.momentum,
                             .decay = step.learning_rate * spec_.weight_decay,
                             .scale = step.gradient_scale,
                             .nesterov = spec_.nesterov};
    float* velocity = memory_.slots.empty() ? nullptr : memory_.slots[0];
    ParallelForFloats(device_.threads, memory_.size, [&](std::int64_t first, std::int64_t last) {
      ForEachSegment(memory_, first, last, [&](std::int64_t begin, std::int64_t end, bool decays) {
        SgdFactors own = factors;
        if (!decays) own.decay = 0;
        device_.kernels.sgd(own, memory_.gradients + begin, memory_.values + begin,
                            velocity == nullptr ? nullptr : velocity + begin, end - begin);
      });
    });
  }

 private:
  const Device& device_;
  SgdSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const SgdSpec& spec) {
  return std::make_unique<Sgd>(device, spec);
}

}  // namespace lockstep::train::cpu
