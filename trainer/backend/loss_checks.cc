#include "trainer/backend/loss_checks.h"

#include "base/check.h"

namespace lockstep::train {
namespace {

bool HasTotalsAndScale(const LossOp::Memory& memory) {
  return memory.totals != nullptr && (memory.dlogits == nullptr || memory.scale != nullptr);
}

}  // namespace

void CheckLoss(const SoftmaxCrossEntropySpec& spec) {
  LOCKSTEP_CHECK(spec.rows > 0 && spec.classes > 0, "softmax_cross_entropy: {} rows of {} classes",
                 spec.rows, spec.classes);
  LOCKSTEP_CHECK(spec.label_smoothing >= 0 && spec.label_smoothing < 1,
                 "softmax_cross_entropy: a label smoothing of {}", spec.label_smoothing);
}

void CheckLoss(const ElementwiseLossSpec& spec) {
  LOCKSTEP_CHECK(spec.rows > 0 && spec.outputs > 0 && spec.delta > 0,
                 "elementwise_loss: {} rows of {} outputs, a delta of {}", spec.rows, spec.outputs,
                 spec.delta);
  LOCKSTEP_CHECK(spec.label_smoothing >= 0 && spec.label_smoothing < 1,
                 "elementwise_loss: a label smoothing of {}", spec.label_smoothing);
}

void CheckSoftmaxMemory(const LossOp::Memory& memory) {
  LOCKSTEP_CHECK((memory.labels == nullptr) != (memory.targets == nullptr),
                 "softmax_cross_entropy: expected exactly one of labels and targets");
  LOCKSTEP_CHECK(HasTotalsAndScale(memory),
                 "softmax_cross_entropy: expected totals, and a scale of the gradient");
}

void CheckElementwiseMemory(const LossOp::Memory& memory) {
  LOCKSTEP_CHECK(memory.targets != nullptr && HasTotalsAndScale(memory),
                 "elementwise_loss: expected targets, totals, and a scale of the gradient");
}

}  // namespace lockstep::train
