#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/loss_checks.h"

namespace lockstep::train::cpu {
namespace {

// As reference/softmax_cross_entropy.cc, with one exp per logit. Runs on one thread, because a
// batch of logits is small and the sum then has a fixed order.
class SoftmaxCrossEntropy final : public LossOp {
 public:
  explicit SoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec)
      : rows_(spec.rows),
        classes_(spec.classes),
        smoothing_(spec.label_smoothing),
        exponentials_(static_cast<std::size_t>(spec.classes)) {}

  void Bind(const Memory& memory) override {
    CheckSoftmaxMemory(memory);
    memory_ = memory;
  }

  void Run() override {
    const float scale = memory_.dlogits == nullptr ? 0.0f : *memory_.scale;
    LossTotals sums;
    for (std::int64_t n = 0; n < rows_; ++n) {
      const float weight = memory_.weights[n];
      if (weight != 0) {
        AddRow(n, weight, scale, sums);
      } else if (memory_.dlogits != nullptr) {
        std::fill_n(memory_.dlogits + n * classes_, classes_, 0.0f);
      }
    }
    memory_.totals->loss += sums.loss;
    memory_.totals->correct += sums.correct;
  }

 private:
  void AddRow(std::int64_t n, float weight, float scale, LossTotals& sums) {
    const float* logits = memory_.logits + n * classes_;
    const float* best = std::max_element(logits, logits + classes_);
    double sum = 0;
    for (std::int64_t k = 0; k < classes_; ++k) {
      const float e = std::exp(logits[k] - *best);
      exponentials_[static_cast<std::size_t>(k)] = e;
      sum += e;
    }
    sums.loss += weight * SmoothedLoss(n, *best + std::log(sum));
    if (best - logits == Label(n)) sums.correct += weight;
    if (memory_.dlogits != nullptr) WriteGradient(n, scale * weight, static_cast<float>(1 / sum));
  }

  // The loss is linear in the target: a part of it is that of the label, the rest that of the
  // uniform target, which is the mean over the classes.
  double SmoothedLoss(std::int64_t n, double log_sum) const {
    if (smoothing_ == 0) return RowLoss(n, log_sum);
    const float* logits = memory_.logits + n * classes_;
    double uniform = 0;
    for (std::int64_t k = 0; k < classes_; ++k) uniform += log_sum - logits[k];
    return (1 - smoothing_) * RowLoss(n, log_sum) +
           smoothing_ * uniform / static_cast<double>(classes_);
  }

  double RowLoss(std::int64_t n, double log_sum) const {
    const float* logits = memory_.logits + n * classes_;
    if (memory_.labels != nullptr) return log_sum - logits[memory_.labels[n]];
    double loss = 0;
    for (std::int64_t k = 0; k < classes_; ++k) {
      const double target = memory_.targets[n * classes_ + k];
      if (target != 0) loss += target * (log_sum - logits[k]);
    }
    return loss;
  }

  void WriteGradient(std::int64_t n, float factor, float inverse_sum) const {
    float* dlogits = memory_.dlogits + n * classes_;
    const auto keep = static_cast<float>(1 - smoothing_);
    const auto uniform = static_cast<float>(smoothing_ / static_cast<double>(classes_));
    for (std::int64_t k = 0; k < classes_; ++k) {
      const float one_hot = memory_.targets == nullptr ? 0 : memory_.targets[n * classes_ + k];
      const float target = keep * one_hot + uniform;
      dlogits[k] = factor * (exponentials_[static_cast<std::size_t>(k)] * inverse_sum - target);
    }
    if (memory_.labels != nullptr) dlogits[memory_.labels[n]] -= keep * factor;
  }

  std::int64_t Label(std::int64_t n) const {
    if (memory_.labels != nullptr) return memory_.labels[n];
    const float* row = memory_.targets + n * classes_;
    return std::max_element(row, row + classes_) - row;
  }

  std::int64_t rows_, classes_;
  double smoothing_;
  std::vector<float> exponentials_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const Device& /*device*/,
                                                const SoftmaxCrossEntropySpec& spec) {
  CheckLoss(spec);
  return std::make_unique<SoftmaxCrossEntropy>(spec);
}

}  // namespace lockstep::train::cpu
