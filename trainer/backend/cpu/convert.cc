#include <span>
#include <utility>

#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/core/squared_norm.h"

namespace lockstep::train::cpu {

void ConvertInput(const Device& device, const std::uint8_t* x, float* y, std::int64_t size,
                  float scale) {
  ParallelForFloats(device.threads, size, [&](std::int64_t begin, std::int64_t end) {
    device.kernels.scale_bytes(x + begin, y + begin, end - begin, scale);
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
