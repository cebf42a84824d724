// The parts of an op's scratch memory.
#pragma once

#include <cstddef>

namespace lockstep::train::cuda {

class ScratchPlan {
 public:
  // Returns where a part of `bytes` begins, which NVIDIA's libraries and kernels want aligned.
  std::size_t Add(std::size_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::train::cuda
