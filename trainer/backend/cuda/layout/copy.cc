#include "trainer/backend/cuda/layout/copy.h"

#include "trainer/backend/cuda/layout/layout.h"
#include "trainer/backend/cuda/layout/transpose.h"

namespace lockstep::train::cuda {

void CopyBytes(const Device& device, const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  device.Check(
      device.driver().MemcpyDtoDAsync(AddressOf(to), AddressOf(from), bytes, device.stream()),
      "cuMemcpyDtoDAsync");
}

void ZeroBytes(const Device& device, void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  device.Check(device.driver().MemsetD8Async(AddressOf(memory), 0, bytes, device.stream()),
               "cuMemsetD8Async");
}

void CopyTensor(const Device& device, const TensorDesc& from, const void* source,
                const TensorDesc& to, void* target) {
  if (IsChannelsLast(from) == IsChannelsLast(to)) {
    CopyBytes(device, source, target, from.bytes());
    return;
  }
  const Shape& image = IsChannelsLast(from) ? from.shape : to.shape;
  const std::int64_t channels = image[1], area = image[2] * image[3];
  const std::int64_t rows = IsChannelsLast(from) ? area : channels;
  Transpose(device, {.x = source,
                     .from = from.dtype,
                     .y = target,
                     .to = to.dtype,
                     .count = image[0],
                     .rows = rows,
                     .columns = channels * area / rows});
}

}  // namespace lockstep::train::cuda
