#include <cstring>

#include "base/check.h"
#include "trainer/backend/reference/ops.h"

namespace lockstep::train::reference {

void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, float scale) {
  for (std::int64_t i = 0; i < size; ++i) y[i] = scale * static_cast<float>(x[i]);
}

void Accumulate(const float* x, float* y, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) y[i] += x[i];
}

void Scale(const float* x, float* y, std::int64_t size, float factor) {
  for (std::int64_t i = 0; i < size; ++i) y[i] = factor * x[i];
}

// This backend has only the dense layout, so both directions are a copy.
void CopyDense(const TensorDesc& desc, const void* source, void* target) {
  LOCKSTEP_CHECK(desc.dense(), "reference: a tensor of shape {} has another back end's layout",
                 desc.shape.ToString());
  std::memcpy(target, source, desc.bytes());
}

}  // namespace lockstep::train::reference
