#include "trainer/backend/elementwise_term.h"
#include "trainer/backend/loss_checks.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

class Elementwise final : public LossOp {
 public:
  explicit Elementwise(const ElementwiseLossSpec& spec) : spec_(spec) {}

  void Bind(const Memory& memory) override {
    CheckElementwiseMemory(memory);
    memory_ = memory;
  }

  void Run() override {
    const float scale = memory_.dlogits == nullptr ? 0.0f : *memory_.scale;
    LossTotals sums;
    for (std::int64_t n = 0; n < spec_.rows; ++n) {
      for (std::int64_t i = n * spec_.outputs; i < (n + 1) * spec_.outputs; ++i) {
        Add(i, memory_.weights[n], scale, sums);
      }
    }
    memory_.totals->loss += sums.loss;
    memory_.totals->correct += sums.correct;
  }

 private:
  // Adds output `i`, a part of its row's mean.
  void Add(std::int64_t i, float weight, float scale, LossTotals& sums) const {
    if (memory_.dlogits != nullptr) memory_.dlogits[i] = 0;
    if (weight == 0) return;
    const double share = weight / static_cast<double>(spec_.outputs);
    const ElementwiseTerm term = ElementwiseTermOf(
        spec_.loss, memory_.logits[i], memory_.targets[i], spec_.delta, spec_.label_smoothing);
    sums.loss += share * term.loss;
    sums.correct += share * term.correct;
    if (memory_.dlogits == nullptr) return;
    memory_.dlogits[i] = static_cast<float>(scale * share * term.slope);
  }

  const ElementwiseLossSpec spec_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec) {
  CheckLoss(spec);
  return std::make_unique<Elementwise>(spec);
}

}  // namespace lockstep::train::reference
