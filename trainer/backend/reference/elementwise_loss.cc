#include <algorithm>
#include <cmath>

#include "trainer/backend/loss_checks.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

struct Term {
  double loss = 0, slope = 0, correct = 0;
};

Term SquaredError(double y, double t) {
  return {.loss = (y - t) * (y - t), .slope = 2 * (y - t), .correct = std::abs(y - t)};
}

Term AbsoluteError(double y, double t) {
  const double sign = y > t ? 1 : y < t ? -1 : y - t;  // not a number if one of them is not
  return {.loss = std::abs(y - t), .slope = sign, .correct = std::abs(y - t)};
}

Term Huber(double y, double t, double delta) {
  const double error = std::abs(y - t);
  const double loss = error <= delta ? 0.5 * error * error : delta * (error - 0.5 * delta);
  return {.loss = loss, .slope = std::clamp(y - t, -delta, delta), .correct = error};
}

Term BinaryCrossEntropy(double y, double t, double smoothing) {
  const double smoothed = (1 - smoothing) * t + 0.5 * smoothing;
  return {.loss = std::max(y, 0.0) - y * smoothed + std::log1p(std::exp(-std::abs(y))),
          .slope = 1 / (1 + std::exp(-y)) - smoothed,
          .correct = (y > 0) == (t > 0.5) ? 1.0 : 0.0};
}

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
    const Term term = TermOf(double{memory_.logits[i]}, double{memory_.targets[i]});
    sums.loss += share * term.loss;
    sums.correct += share * term.correct;
    if (memory_.dlogits == nullptr) return;
    memory_.dlogits[i] = static_cast<float>(scale * share * term.slope);
  }

  Term TermOf(double y, double t) const {
    switch (spec_.loss) {
      case ElementwiseLoss::kBinaryCrossEntropy:
        return BinaryCrossEntropy(y, t, spec_.label_smoothing);
      case ElementwiseLoss::kSquaredError:
        return SquaredError(y, t);
      case ElementwiseLoss::kAbsoluteError:
        return AbsoluteError(y, t);
      case ElementwiseLoss::kHuber:
        return Huber(y, t, spec_.delta);
    }
    return {};
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
