#include "trainer/backend/reference/ops.h"
#include "trainer/backend/segments.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::reference {
namespace {

// See LambSpec for the formula.
class Lamb final : public OptimizerOp {
 public:
  explicit Lamb(const LambSpec& spec) : spec_(spec) {}
  int Slots() const override { return 2; }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory("lamb", memory, Slots());
    memory_ = memory;
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const LambCorrections corrections = CorrectionsOf(spec_, step);
    float *const m = memory_.slots[0], *const v = memory_.slots[1], *const values = memory_.values;
    ForEachSegment(
        memory_, 0, memory_.size, [&](std::int64_t begin, std::int64_t end, bool decays) {
          const float decay = decays ? spec_.weight_decay : 0;
          TrustSquares squares;
          for (std::int64_t i = begin; i < end; ++i) {
            UpdateMoments(spec_, step.gradient_scale * memory_.gradients[i], m[i], v[i]);
            const double value = values[i];
            const double u = DirectionOf(spec_, corrections, decay, values[i], m[i], v[i]);
            squares.values += value * value;
            squares.update += u * u;
          }
          const float rate = step.learning_rate * (decays ? TrustOf(spec_, squares) : 1);
          for (std::int64_t i = begin; i < end; ++i) {
            values[i] -= rate * DirectionOf(spec_, corrections, decay, values[i], m[i], v[i]);
          }
        });
  }

 private:
  const LambSpec spec_;
  OptimizerMemory memory_;
};

}  // namespace

std::unique_ptr<OptimizerOp> MakeOptimizer(const LambSpec& spec) {
  return std::make_unique<Lamb>(spec);
}

}  // namespace lockstep::train::reference
