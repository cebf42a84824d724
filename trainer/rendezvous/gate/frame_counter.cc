#include "trainer/rendezvous/gate/frame_counter.h"

#include <algorithm>

namespace lockstep::train {
namespace {

constexpr std::uint8_t kHeaders = 1;  // the frame that opens a stream

}  // namespace

void FrameCounter::Feed(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (skipped_ > 0) {
      const std::size_t size = std::min(skipped_, bytes.size());
      skipped_ -= size;
      bytes.remove_prefix(size);
      continue;
    }
    head_[head_size_++] = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (head_size_ < kHeadBytes) continue;
    head_size_ = 0;
    skipped_ = std::size_t{head_[0]} << 16 | std::size_t{head_[1]} << 8 | head_[2];
    ++frames_;
    if (head_[3] == kHeaders) ++streams_;
  }
}

}  // namespace lockstep::train
