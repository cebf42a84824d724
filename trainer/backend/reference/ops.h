// The factories of the reference ops; each op has a file of its own.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train::reference {

std::unique_ptr<Op> MakeConv2d(const Conv2dSpec& spec);
std::unique_ptr<Op> MakeDense(const DenseSpec& spec);
std::unique_ptr<Op> MakePool2d(const Pool2dSpec& spec);
std::unique_ptr<Op> MakeGlobalAveragePool2d(const TensorDesc& x);
std::unique_ptr<Op> MakeBatchNorm(const BatchNormSpec& spec);
std::unique_ptr<Op> MakeRelu(const TensorDesc& x);
std::unique_ptr<Op> MakeDropout(const DropoutSpec& spec);
std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(std::int64_t rows, std::int64_t classes);
std::unique_ptr<OptimizerOp> MakeSgd(const SgdSpec& spec);
std::unique_ptr<OptimizerOp> MakeAdam(const AdamSpec& spec);
void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale);
void CopyDense(const TensorDesc& desc, const void* source, void* target);

}  // namespace lockstep::train::reference
