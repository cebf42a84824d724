// The buffer into which cpprestsdk writes a response body that is read at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "operator/kube/rest/write_only_buffer.h"

namespace lockstep::kube {

// Keeps the first `most` bytes and discards the rest as it arrives. Create with std::make_shared.
// Take may be called once the library has written everything.
class AnswerBuffer final : public WriteOnlyBuffer {
 public:
  explicit AnswerBuffer(std::size_t most) : most_(most) {}

  std::string Take() { return std::move(text_); }

 protected:
  pplx::task<std::size_t> _putn(const std::uint8_t* piece, std::size_t size) override {
    const std::size_t kept = std::min(size, most_ - text_.size());
    text_.append(reinterpret_cast<const char*>(piece), kept);
    return pplx::task_from_result(size);
  }

 private:
  const std::size_t most_;
  std::string text_;
};

}  // namespace lockstep::kube
