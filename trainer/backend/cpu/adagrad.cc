#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/segments.h"

namespace lockstep::train::cpu {
namespace {

// See AdagradSpec for the formula.
class Adagrad final : public OptimizerOp {
 public:
  Adagrad(const Device& device, const AdagradSpec& spec) : device_(device), spec_(spec) {}
  int Slots() const override { return 1; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("adagrad", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const AdagradFactors factors{.rate = step.learning_rate,
                                 .epsilon = spec_.epsilon,
                                 .decay = step.learning_rate * spec_.weight_decay,
                                 .scale = step.gradient_scale};
    ParallelForFloats(device_.threads, memory_.size, [&](std::int64_t first, std::int64_t last) {
      ForEachSegment(memory_, first, last, [&](std::int64_t begin, std::int64_t end, bool decays) {
        AdagradFactors own = factors;
        if (!decays) own.decay = 0;
        device_.kernels.adagrad(own, memory_.gradients + begin, memory_.values + begin,
                                memory_.slots[0] + begin, end - begin);
      });
    });
  }

 private:
  const Device& device_;
  AdagradSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdagradSpec& spec) {
  return std::make_unique<Adagrad>(device, spec);
}

}  // namespace lockstep::train::cpu
