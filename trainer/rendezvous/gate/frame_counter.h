// Counts the bytes, frames and streams that an HTTP/2 client has sent, by its frame headers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::train {

// Expects the client's preface and then frames (RFC 9113, sections 3.4 and 4.1), and does not
// validate them: on other input the counts are meaningless, but it never fails.
class FrameCounter {
 public:
  // `bytes` may begin and end anywhere.
  void Feed(std::string_view bytes);
  std::size_t bytes() const { return bytes_; }
  std::size_t frames() const { return frames_; }
  std::size_t streams() const { return streams_; }  // opened so far, closed ones included

 private:
  static constexpr std::size_t kPrefaceBytes = 24, kHeadBytes = 9;

  std::size_t bytes_ = 0, frames_ = 0, streams_ = 0;
  std::size_t skipped_ = kPrefaceBytes;  // bytes left before the next frame header
  std::uint8_t head_[kHeadBytes] = {};
  std::size_t head_size_ = 0;  // bytes received of the header
};

}  // namespace lockstep::train
