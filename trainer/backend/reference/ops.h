// The factories of the reference ops; each op has a file of its own.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/low_precision_op.h"

namespace lockstep::train::reference {

std::unique_ptr<Op> MakeOp(const ActivationSpec& spec);
std::unique_ptr<Op> MakeOp(const AddSpec& spec);
std::unique_ptr<Op> MakeOp(const BatchNormSpec& spec);
std::unique_ptr<Op> MakeOp(const ConcatenateSpec& spec);
std::unique_ptr<Op> MakeOp(const Conv2dSpec& spec);
std::unique_ptr<Op> MakeOp(const DenseSpec& spec);
std::unique_ptr<Op> MakeOp(const DepthwiseConv2dSpec& spec);
std::unique_ptr<Op> MakeOp(const DropoutSpec& spec);
std::unique_ptr<Op> MakeOp(const FlattenSpec& spec);
std::unique_ptr<Op> MakeOp(const GlobalAveragePool2dSpec& spec);
std::unique_ptr<Op> MakeOp(const LayerNormSpec& spec);
std::unique_ptr<Op> MakeOp(const Pool2dSpec& spec);
std::unique_ptr<Op> MakeOp(const ZeroPadding2dSpec& spec);
std::unique_ptr<LossOp> MakeElementwiseLoss(const ElementwiseLossSpec& spec);
std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const SgdSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const AdamSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const RmspropSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const AdagradSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const LarsSpec& spec);
std::unique_ptr<OptimizerOp> MakeOptimizer(const LambSpec& spec);
void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale);
void Accumulate(const float* x, float* y, std::int64_t size);
void Scale(const float* x, float* y, std::int64_t size, float factor);
void Cast(const CastOperands& operands);
void CopyDense(const TensorDesc& desc, const void* source, void* target);

}  // namespace lockstep::train::reference
