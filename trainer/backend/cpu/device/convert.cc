#include <span>
#include <utility>

#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/core/squared_norm.h"

namespace lockstep::train::cpu {

void ConvertInput(const Device& device, const std::uint8_t* x, float* y, std::int64_t size,
                  const InputScaling& scaling) {
  ParallelForFloats(device.threads, size, [&](std::int64_t begin, std::int64_t end) {
    ForEachScaledRange(scaling, begin, end,
                       [&](std::int64_t first, std::int64_t last, float center, float factor) {
                         device.kernels.scale_bytes(x + first, y + first, last - first, center,
                                                    factor);
                       });
  });
}

void Cast(const Device& device, const CastOperands& operands) {
  const bool widens = operands.to == DType::kFloat32;
  const bool is_bfloat16 = (widens ? operands.from : operands.to) == DType::kBFloat16;
  ParallelForFloats(device.threads, operands.size, [&](std::int64_t begin, std::int64_t end) {
    if (widens) {
      const auto cast = is_bfloat16 ? device.kernels.from_bfloat16 : device.kernels.from_float16;
      cast(static_cast<const std::uint16_t*>(operands.x) + begin,
           static_cast<float*>(operands.y) + begin, end - begin);
    } else {
      const auto cast = is_bfloat16 ? device.kernels.to_bfloat16 : device.kernels.to_float16;
      cast(static_cast<const float*>(operands.x) + begin,
           static_cast<std::uint16_t*>(operands.y) + begin, end - begin);
    }
  });
}

void Accumulate(const Device& device, const float* x, float* y, std::int64_t size) {
  ParallelForFloats(device.threads, size, [&](std::int64_t begin, std::int64_t end) {
    device.kernels.add(x + begin, y + begin, y + begin, end - begin, /*relu=*/false);
  });
}

void Scale(const Device& device, const float* x, float* y, std::int64_t size, float factor) {
  ParallelForFloats(device.threads, size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = factor * x[i];
  });
}

double SquaredNorm(const Device& device, const float* values, std::int64_t size) {
  const std::span<const float> all(values, static_cast<std::size_t>(size));
  double parts[kNormParts];
  ParallelFor(
      ThreadsFor(device.threads, size), kNormParts, [&](std::int64_t begin, std::int64_t end) {
        for (auto part = static_cast<std::size_t>(begin); std::cmp_less(part, end); ++part) {
          parts[part] = SquaredNormOfPart(all, part);
        }
      });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace lockstep::train::cpu
