// Copies on a GPU, in the order of its ops.
#pragma once

#include <cstddef>

#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/tensor.h"

namespace lockstep::train::cuda {

void CopyBytes(const Device& device, const void* from, void* to, std::size_t bytes);
void ZeroBytes(const Device& device, void* memory, std::size_t bytes);

// Copies a tensor from one layout to the other. Requires: `from` and `to` have the same type and as
// many elements, in the same logical order; images with their channels last have rank 4.
void CopyTensor(const Device& device, const TensorDesc& from, const void* source,
                const TensorDesc& to, void* target);

}  // namespace lockstep::train::cuda
