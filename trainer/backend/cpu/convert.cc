#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/parallel.h"

namespace lockstep::train::cpu {

void ConvertInput(const Device& device, const std::uint8_t* x, float* y, std::int64_t size,
                  float scale) {
  ParallelForFloats(device.threads, size, [&](std::int64_t begin, std::int64_t end) {
    device.kernels.scale_bytes(x + begin, y + begin, end - begin, scale);
  });
}

}  // namespace lockstep::train::cpu
