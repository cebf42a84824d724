#include "trainer/backend/reference/ops.h"
#include "trainer/backend/segments.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {
namespace {

// See LarsSpec for the formula.
class Lars final : public OptimizerOp {
 public:
  explicit Lars(const LarsSpec& spec) : spec_(spec) {}
  int Slots() const override { return spec_.momentum == 0 ? 0 : 1; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("lars", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    ForEachSegment(
        memory_, 0, memory_.size, [&](std::int64_t begin, std::int64_t end, bool decays) {
          const float decay = decays ? spec_.weight_decay : 0;
          const float trust = decays ? TrustOf(spec_, Measure(begin, end)) : 1;
          for (std::int64_t i = begin; i < end; ++i) {
            const float g = step.gradient_scale * memory_.gradients[i] + decay * memory_.values[i];
            UpdateValue(spec_, g, step.learning_rate * trust, memory_.values[i],
                        spec_.momentum == 0 ? nullptr : memory_.slots[0] + i);
          }
        });
  }

 private:
  TrustSquares Measure(std::int64_t begin, std::int64_t end) const {
    TrustSquares squares;
    for (std::int64_t i = begin; i < end; ++i) {
      const double value = memory_.values[i];
      const double g = memory_.step->gradient_scale * memory_.gradients[i];
      squares.values += value * value;
      squares.update += g * g;
    }
    return squares;
  }

  const LarsSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const LarsSpec& spec) {
  return std::make_unique<Lars>(spec);
}

}  // namespace lockstep::train::reference
