#include <cstring>

#include "base/check.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/core/half.h"

namespace lockstep::train::reference {

void ConvertInput(const std::uint8_t* x, float* y, std::int64_t size, const InputScaling& scaling) {
  for (std::int64_t i = 0; i < size; ++i) {
    const auto channel = static_cast<std::size_t>(i / scaling.plane % scaling.channels);
    y[i] = (static_cast<float>(x[i]) - scaling.center[channel]) * scaling.factor[channel];
  }
}

void Cast(const CastOperands& operands) {
  const bool widens = operands.to == DType::kFloat32;
  const bool is_bfloat16 = (widens ? operands.from : operands.to) == DType::kBFloat16;
  const auto* halves = static_cast<const std::uint16_t*>(operands.x);
  const auto* floats = static_cast<const float*>(operands.x);
  for (std::int64_t i = 0; i < operands.size; ++i) {
    if (widens) {
      static_cast<float*>(operands.y)[i] =
          is_bfloat16 ? FromBFloat16(halves[i]) : FromFloat16(halves[i]);
    } else {
      static_cast<std::uint16_t*>(operands.y)[i] =
          is_bfloat16 ? ToBFloat16(floats[i]) : ToFloat16(floats[i]);
    }
  }
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
