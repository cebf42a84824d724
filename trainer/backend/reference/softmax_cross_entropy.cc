#include <algorithm>
#include <cmath>

#include "trainer/backend/loss_checks.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {
namespace {

// CE(logits, t) = sum over k of t_k * (log(sum_j exp(logits_j)) - logits_k), shifted by the largest
// logit so that no exp overflows. Rows of weight 0 are not read: padding may hold anything.
class SoftmaxCrossEntropy final : public LossOp {
 public:
  explicit SoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec)
      : rows_(spec.rows), classes_(spec.classes), smoothing_(spec.label_smoothing) {}

  void Bind(const Memory& memory) override {
    CheckSoftmaxMemory(memory);
    memory_ = memory;
  }

  void Run() override {
    const float scale = memory_.dlogits == nullptr ? 0.0f : *memory_.scale;
    LossTotals sums;
    for (std::int64_t n = 0; n < rows_; ++n) {
      const float weight = memory_.weights[n];
      if (weight == 0) {
        if (memory_.dlogits != nullptr) {
          std::fill_n(memory_.dlogits + n * classes_, classes_, 0.0f);
        }
        continue;
      }
      AddRow(n, weight, scale, sums);
    }
    memory_.totals->loss += sums.loss;
    memory_.totals->correct += sums.correct;
  }

 private:
  void AddRow(std::int64_t n, float weight, float scale, LossTotals& sums) const {
    const float* logits = memory_.logits + n * classes_;
    const float* best = std::max_element(logits, logits + classes_);
    double sum = 0;
    for (std::int64_t k = 0; k < classes_; ++k) sum += std::exp(double{logits[k]} - *best);
    const double log_sum = *best + std::log(sum);
    for (std::int64_t k = 0; k < classes_; ++k) {
      const double target = Target(n, k);
      if (target != 0) sums.loss += weight * target * (log_sum - logits[k]);
      if (memory_.dlogits == nullptr) continue;
      const double difference = std::exp(logits[k] - log_sum) - target;
      memory_.dlogits[n * classes_ + k] = static_cast<float>(scale * weight * difference);
    }
    if (best - logits == Label(n)) sums.correct += weight;
  }

  double Target(std::int64_t n, std::int64_t k) const {
    return (1 - smoothing_) * OneHot(n, k) + smoothing_ / static_cast<double>(classes_);
  }

  double OneHot(std::int64_t n, std::int64_t k) const {
    if (memory_.targets != nullptr) return memory_.targets[n * classes_ + k];
    return memory_.labels[n] == k ? 1 : 0;
  }

  std::int64_t Label(std::int64_t n) const {
    if (memory_.labels != nullptr) return memory_.labels[n];
    const float* row = memory_.targets + n * classes_;
    return std::max_element(row, row + classes_) - row;
  }

  std::int64_t rows_, classes_;
  double smoothing_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec) {
  CheckLoss(spec);
  return std::make_unique<SoftmaxCrossEntropy>(spec);
}

}  // namespace lockstep::train::reference
