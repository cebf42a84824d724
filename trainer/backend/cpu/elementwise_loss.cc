#include <algorithm>
#include <cmath>

#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/loss_checks.h"

namespace lockstep::train::cpu {
namespace {

struct Term {
  float loss = 0, slope = 0, correct = 0;
};

// As reference/elementwise_loss.cc, in float, with one loop for each loss. Runs on one thread, as
// the softmax cross-entropy does.
class Elementwise final : public LossOp {
 public:
  explicit Elementwise(const ElementwiseLossSpec& spec) : spec_(spec) {}

  void Bind(const Memory& memory) override {
    CheckElementwiseMemory(memory);
    memory_ = memory;
  }

  void Run() override {
    switch (spec_.loss) {
      case ElementwiseLoss::kBinaryCrossEntropy:
        return RunBinary();
      case ElementwiseLoss::kSquaredError:
        return RunRows([](float y, float t) {
          const float error = y - t;
          return Term{.loss = error * error, .slope = 2 * error, .correct = std::abs(error)};
        });
      case ElementwiseLoss::kAbsoluteError:
        return RunRows([](float y, float t) {
          const float error = y - t, size = std::abs(error);
          return Term{.loss = size,
                      .slope = error > 0   ? 1.0f
                               : error < 0 ? -1.0f
                                           : error,  // not a number if the error is not
                      .correct = size};
        });
      case ElementwiseLoss::kHuber:
        return RunRows([delta = static_cast<float>(spec_.delta)](float y, float t) {
          const float error = y - t, size = std::abs(error);
          return Term{.loss = size <= delta ? 0.5f * size * size : delta * (size - 0.5f * delta),
                      .slope = std::clamp(error, -delta, delta),
                      .correct = size};
        });
    }
  }

 private:
  void RunBinary() {
    const auto keep = static_cast<float>(1 - spec_.label_smoothing);
    const auto half = static_cast<float>(0.5 * spec_.label_smoothing);
    RunRows([keep, half](float y, float t) {
      const float smoothed = keep * t + half;
      const float small = std::exp(-std::abs(y));  // of the two exponentials, that in (0, 1]
      return Term{.loss = std::max(y, 0.0f) - y * smoothed + std::log1p(small),
                  .slope = (y > 0 ? 1 : small) / (1 + small) - smoothed,
                  .correct = (y > 0) == (t > 0.5f) ? 1.0f : 0.0f};
    });
  }

  template <class TermOf>
  void RunRows(const TermOf& term_of) {
    const float scale = memory_.dlogits == nullptr ? 0.0f : *memory_.scale;
    const double share = 1 / static_cast<double>(spec_.outputs);
    LossTotals sums;
    for (std::int64_t n = 0; n < spec_.rows; ++n) {
      const float weight = memory_.weights[n];
      float* dlogits = memory_.dlogits == nullptr ? nullptr : memory_.dlogits + n * spec_.outputs;
      if (weight == 0) {
        if (dlogits != nullptr) std::fill_n(dlogits, spec_.outputs, 0.0f);
        continue;
      }
      const auto factor = static_cast<float>(scale * weight * share);
      LossTotals row;
      for (std::int64_t k = 0; k < spec_.outputs; ++k) {
        const std::int64_t at = n * spec_.outputs + k;
        const Term term = term_of(memory_.logits[at], memory_.targets[at]);
        row.loss += double{term.loss};
        row.correct += double{term.correct};
        if (dlogits != nullptr) dlogits[k] = factor * term.slope;
      }
      sums.loss += weight * share * row.loss;
      sums.correct += weight * share * row.correct;
    }
    memory_.totals->loss += sums.loss;
    memory_.totals->correct += sums.correct;
  }

  const ElementwiseLossSpec spec_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<LossOp> MakeElementwiseLoss(const Device& /*device*/,
                                            const ElementwiseLossSpec& spec) {
  CheckLoss(spec);
  return std::make_unique<Elementwise>(spec);
}

}  // namespace lockstep::train::cpu
