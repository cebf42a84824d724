#include "trainer/backend/cuda/copy.h"

#include "trainer/backend/cuda/layout.h"
#include "trainer/backend/cuda/transpose.h"

namespace lockstep::train::cuda {
void CopyFloats(const Device& device, const float* from, float* to, std::int64_t size) {
  device.Check(device.driver().MemcpyDtoDAsync(
                   reinterpret_cast<DeviceAddress>(to), reinterpret_cast<DeviceAddress>(from),
                   static_cast<std::size_t>(size) * sizeof(float), device.stream()),
               "cuMemcpyDtoDAsync");
}

void CopyTensor(const Device& device, const TensorDesc& from, const float* source,
                const TensorDesc& to, float* target) {
  if (IsChannelsLast(from) == IsChannelsLast(to)) {
    CopyFloats(device, source, target, from.elements());
    return;
  }
  const Shape& image = IsChannelsLast(from) ? from.shape : to.shape;
  const std::int64_t channels = image[1], area = image[2] * image[3];
  const std::int64_t rows = IsChannelsLast(from) ? area : channels;
  Transpose(device, source, target, image[0], rows, channels * area / rows);
}

}  // namespace lockstep::train::cuda
