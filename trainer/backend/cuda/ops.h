// The factories of the GPU's ops; each op has a file of its own. `device` must outlive the ops.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"

namespace lockstep::train::cuda {

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

}  // namespace lockstep::train::cuda
