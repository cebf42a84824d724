// The factories of the CPU's ops; each op has a file of its own. `device` must outlive the ops.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/low_precision_op.h"

namespace lockstep::train::cpu {

std::unique_ptr<Op> MakeOp(const Device& device, const ActivationSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const AddSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const BatchNormSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const ConcatenateSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const Conv2dSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const DenseSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const DepthwiseConv2dSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const DropoutSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const FlattenSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const GlobalAveragePool2dSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const LayerNormSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const Pool2dSpec& spec);
std::unique_ptr<Op> MakeOp(const Device& device, const ZeroPadding2dSpec& spec);
std::unique_ptr<LossOp> MakeElementwiseLoss(const Device& device, const ElementwiseLossSpec& spec);
std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const Device& device,
                                                const SoftmaxCrossEntropySpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const SgdSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdamSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const RmspropSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const AdagradSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const LarsSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const Device& device, const LambSpec& spec);
void ConvertInput(const Device& device, const std::uint8_t* x, float* y, std::int64_t size,
                  float scale);
void Accumulate(const Device& device, const float* x, float* y, std::int64_t size);
void Scale(const Device& device, const float* x, float* y, std::int64_t size, float factor);
double SquaredNorm(const Device& device, const float* values, std::int64_t size);
void Cast(const Device& device, const CastOperands& operands);
void ToDense(const Device& device, const TensorDesc& from, const void* source, float* target);
void FromDense(const Device& device, const float* source, const TensorDesc& to, void* target);

}  // namespace lockstep::train::cpu
