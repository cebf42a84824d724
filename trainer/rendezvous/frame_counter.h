// What an HTTP/2 client has sent, by the heads of its frames. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::train {

// Expects the client's preface and then frames (RFC 9113, sections 3.4 and 4.1) and notices no
// fault in them: of other bytes it counts nonsense, but never fails.
class FrameCounter {
 public:
  // `bytes` may begin and end anywhere.
  void Feed(std::string_view bytes);
  std::size_t bytes() const { return bytes_; }
  std::size_t frames() const { return frames_; }
  std::size_t streams() const { return streams_; }  // opened, those that are over included

 private:
  static constexpr std::size_t kPrefaceBytes = 24, kHeadBytes = 9;

  std::size_t bytes_ = 0, frames_ = 0, streams_ = 0;
  std::size_t skipped_ = kPrefaceBytes;  // bytes before the next frame's head
  std::uint8_t head_[kHeadBytes] = {};
  std::size_t head_size_ = 0;  // bytes of it that have come
};

}  // namespace lockstep::train
