// The factories of the CPU's ops; each op has a file of its own. `device` must outlive the ops.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/low_precision_op.h"

namespace lockstep::train::cpu {

// Calls MakeOp(device, spec), which the file of the op defines. The declaration is in here, so that
// an op needs no line in this header; the linker names a spec without a function.
template <typename Spec>
std::unique_ptr<Op> MakeOpOf(const Device& device, const Spec& spec) {
  std::unique_ptr<Op> MakeOp(const Device& device, const Spec& spec);
  return MakeOp(device, spec);
}

// The same for an optimizer.
template <typename Spec>
std::unique_ptr<OptimizerOp> MakeOptimizerOf(const Device& device, const Spec& spec) {
  std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const Spec& spec);
  return MakeOptimizer(device, spec);
}

std::unique_ptr<LossOp> MakeElementwiseLoss(const Device& device, const ElementwiseLossSpec& spec);
std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const Device& device,
                                                const SoftmaxCrossEntropySpec& spec);
void ConvertInput(const Device& device, const std::uint8_t* x, float* y, std::int64_t size,
                  const InputScaling& scaling);
void Accumulate(const Device& device, const float* x, float* y, std::int64_t size);
void Scale(const Device& device, const float* x, float* y, std::int64_t size, float factor);
double SquaredNorm(const Device& device, const float* values, std::int64_t size);
void Cast(const Device& device, const CastOperands& operands);
void ToDense(const Device& device, const TensorDesc& from, const void* source, float* target);
void FromDense(const Device& device, const float* source, const TensorDesc& to, void* target);

}  // namespace lockstep::train::cpu
