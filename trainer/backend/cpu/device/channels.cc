#include "trainer/backend/cpu/device/channels.h"

#include <algorithm>

#include "trainer/backend/cpu/parallel.h"

namespace lockstep::train::cpu {
namespace {

// True if the channels are whole blocks of one order, which are contiguous in a row.
bool AreBlocks(const Channels<const float>& from, const Channels<float>& to, std::int64_t count) {
  const std::int64_t inner = to.view.inner;
  return from.view.inner == inner && from.first % inner == 0 && to.first % inner == 0 &&
         count % inner == 0;
}

}  // namespace

void CopyChannels(const Device& device, const Channels<const float>& from,
                  const Channels<float>& to, std::int64_t count) {
  const std::int64_t area = to.view.area();
  const bool blocks = AreBlocks(from, to, count);
  ParallelFor(ThreadsFor(device.threads, to.view.rows * count * area), to.view.rows,
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t n = begin; n < end; ++n) {
                  if (blocks) {
                    std::copy_n(from.data + from.view.ChannelOffset(n, from.first), count * area,
                                to.data + to.view.ChannelOffset(n, to.first));
                    continue;
                  }
                  for (std::int64_t c = 0; c < count; ++c) {
                    const float* source = from.data + from.view.ChannelOffset(n, from.first + c);
                    float* target = to.data + to.view.ChannelOffset(n, to.first + c);
                    for (std::int64_t i = 0; i < area; ++i) {
                      target[i * to.view.inner] = source[i * from.view.inner];
                    }
                  }
                  if (to.first + count == to.view.channels) {
                    ZeroPaddingChannels(to.view, to.data + n * to.view.row_floats());
                  }
                }
              });
}

void ZeroPaddingChannels(const ImageView& view, float* row) {
  const std::int64_t used = view.channels - (view.outer - 1) * view.inner;
  if (used == view.inner) return;
  float* last = row + (view.outer - 1) * view.area() * view.inner;
  for (std::int64_t pixel = 0; pixel < view.area(); ++pixel) {
    std::fill(last + pixel * view.inner + used, last + (pixel + 1) * view.inner, 0.0f);
  }
}

}  // namespace lockstep::train::cpu
