// The factories of the GPU's ops; each op has a file of its own. `device` must outlive the ops.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"

namespace lockstep::train::cuda {

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

}  // namespace lockstep::train::cuda
