// The factories of the reference ops; each op has a file of its own.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/low_precision_op.h"

namespace lockstep::train::reference {

// Calls MakeOp(spec), which the file of the op defines. The declaration is in here, so that an op
// needs no line in this header; the linker names a spec without a function.
template <typename Spec>
std::unique_ptr<Op> MakeOpOf(const Spec& spec) {
  std::unique_ptr<Op> MakeOp(const Spec& spec);
  return MakeOp(spec);
}

// The same for an optimizer.
template <typename Spec>
std::unique_ptr<OptimizerOp> MakeOptimizerOf(const Spec& spec) {
  std::unique_ptr<OptimizerOp> MakeOptimizer(const Spec& spec);
  return MakeOptimizer(spec);
}

std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec);
std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec);
void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, const InputScaling& scaling);
void Accumulate(const float* x, float* y, std::int64_t size);
void Scale(const float* x, float* y, std::int64_t size, float factor);
void Cast(const CastOperands& operands);
void CopyDense(const TensorDesc& desc, const void* source, void* target);

}  // namespace lockstep::train::reference
