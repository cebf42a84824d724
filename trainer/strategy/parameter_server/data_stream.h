// Floats on a gRPC stream: a sequence of Data messages, none of them large, so that both ends work
// while others are under way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/proto/parameter_server.pb.h"

namespace lockstep::train {

inline constexpr std::int64_t kFloatsPerMessage = 1 << 18;  // 1 MB
inline constexpr int kLargestDataMessage = (1 << 20) + (64 << 10);

// The ranges of memory that a sequence is read from, one after the other.
class DataSource {
 public:
  // With `exists` = false there is no sequence: done from the start.
  explicit DataSource(std::vector<std::span<const float>> ranges, bool exists = true)
      : ranges_(std::move(ranges)), done_(!exists) {
    for (const auto& range : ranges_) left_ += std::ssize(range);
  }
  bool done() const { return done_; }
  // Overwrites `data` with the next message. A sequence has at least one, the last of which says
  // so.
  void Fill(proto::Data& data) {
    const std::int64_t floats = std::min(left_, kFloatsPerMessage);
    data.set_offset(offset_);
    std::string& bytes = *data.mutable_floats();
    bytes.clear();
    bytes.reserve(static_cast<std::size_t>(floats) * sizeof(float));
    for (std::int64_t need = floats; need > 0;) {
      const std::span<const float> range = ranges_[at_].subspan(used_);
      const auto take = std::min(need, static_cast<std::int64_t>(range.size()));
      bytes.append(reinterpret_cast<const char*>(range.data()),
                   static_cast<std::size_t>(take) * sizeof(float));
      need -= take;
      used_ += static_cast<std::size_t>(take);
      if (used_ < ranges_[at_].size()) continue;
      ++at_;
      used_ = 0;
    }
    offset_ += floats;
    left_ -= floats;
    done_ = left_ == 0;
    data.set_last(done_);
  }

 private:
  std::vector<std::span<const float>> ranges_;
  std::size_t at_ = 0, used_ = 0;
  std::int64_t offset_ = 0, left_ = 0;
  bool done_;
};

// The ranges of memory that a sequence is written to, one after the other.
class DataSink {
 public:
  explicit DataSink(std::vector<std::span<float>> ranges) : ranges_(std::move(ranges)) {}
  // Returns false if the message is not the next one, which changes nothing, or has more floats
  // than there is room for, which are counted all the same.
  bool Take(const proto::Data& data) {
    if (data.offset() != offset_ || data.floats().size() % sizeof(float) != 0) return false;
    const char* from = data.floats().data();
    std::size_t left = data.floats().size() / sizeof(float);
    offset_ += static_cast<std::int64_t>(left);
    while (left > 0) {
      while (at_ < ranges_.size() && used_ == ranges_[at_].size()) {
        ++at_;
        used_ = 0;
      }
      if (at_ == ranges_.size()) return false;
      const std::size_t take = std::min(left, ranges_[at_].size() - used_);
      std::memcpy(ranges_[at_].data() + used_, from, take * sizeof(float));
      from += take * sizeof(float);
      used_ += take;
      left -= take;
    }
    return true;
  }
  std::int64_t taken() const { return offset_; }  // floats

 private:
  std::vector<std::span<float>> ranges_;
  std::size_t at_ = 0, used_ = 0;
  std::int64_t offset_ = 0;
};

}  // namespace lockstep::train
