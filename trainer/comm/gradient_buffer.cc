#include "trainer/comm/gradient_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "trainer/comm/shm/shared_segment.h"
#include "trainer/core/available_memory.h"

namespace lockstep::train {
namespace {

absl::Status CheckRoom(std::size_t floats) {
  const std::uint64_t available = AvailableMemory();
  if (floats <= available / sizeof(float)) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("gradient buffer: found {} bytes of memory, expected room for {} floats of 4 "
                  "bytes; another attempt may find more",
                  available, floats));
}

class SharedBuffer final : public GradientBuffer {
 public:
  SharedBuffer(std::unique_ptr<SharedSegment> segment, std::size_t floats, bool reserves)
      : has_pages_(reserves), segment_(std::move(segment)), floats_(floats) {}

  float* data() override { return reinterpret_cast<float*>(segment_->data()); }
  std::size_t size() const override { return floats_; }
  std::string name() const override { return segment_->locator().ToString(); }
  absl::Status Reserve() override {
    const absl::Status reserved = segment_->Reserve();
    has_pages_ = has_pages_ || reserved.ok();
    if (reserved.ok()) return reserved;
    return absl::UnavailableError(fmt::format("gradient buffer: {}; another attempt may find more",
                                              std::string(reserved.message())));
  }
  void WillBeShared() override { is_shared_ = true; }
  absl::Status Renew() override {
    if (!is_shared_) {
      if (has_pages_) std::fill_n(data(), floats_, 0.0f);
      return absl::OkStatus();
    }
    const absl::Status replaced = segment_->Replace();
    if (replaced.ok()) {
      is_shared_ = false;
      return replaced;
    }
    return absl::UnavailableError(
        fmt::format("gradient buffer: found no memory to renew it: {}; "
                    "another attempt may find more",
                    std::string(replaced.message())));
  }
  SharedSegment* segment() override { return segment_.get(); }

 private:
  bool is_shared_ = false;  // since the last Renew that succeeded
  bool has_pages_;          // to zero other memory would allocate it
  std::unique_ptr<SharedSegment> segment_;
  std::size_t floats_;
};

class PrivateBuffer final : public GradientBuffer {
 public:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  PrivateBuffer(std::unique_ptr<float, Free> data, std::size_t floats)
      : data_(std::move(data)), floats_(floats) {}

  float* data() override { return data_.get(); }
  std::size_t size() const override { return floats_; }
  std::string name() const override { return ""; }
  absl::Status Reserve() override { return absl::OkStatus(); }
  void WillBeShared() override {}
  absl::Status Renew() override {
    std::fill_n(data_.get(), floats_, 0.0f);
    return absl::OkStatus();
  }
  SharedSegment* segment() override { return nullptr; }

 private:
  std::unique_ptr<float, Free> data_;
  std::size_t floats_;
};

absl::StatusOr<std::unique_ptr<GradientBuffer>> CreatePrivate(std::size_t floats) {
  constexpr std::size_t kAlignment = 4096;
  const std::size_t bytes = (floats * sizeof(float) + kAlignment) / kAlignment * kAlignment;
  auto* data = static_cast<float*>(std::aligned_alloc(kAlignment, bytes));
  if (data == nullptr)
    return absl::UnavailableError(fmt::format("gradient buffer: no memory for {} bytes", bytes));
  std::fill_n(data, bytes / sizeof(float), 0.0f);
  return std::make_unique<PrivateBuffer>(std::unique_ptr<float, PrivateBuffer::Free>(data), floats);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientBuffer>> GradientBuffer::Create(std::size_t floats,
                                                                       bool reserves) {
  if (reserves) LOCKSTEP_RETURN_IF_ERROR(CheckRoom(floats));
  auto segment = SharedSegment::Create(floats * sizeof(float), reserves);
  if (segment.ok()) return std::make_unique<SharedBuffer>(*std::move(segment), floats, reserves);
  LogWarning("gradient buffer: no shared memory, ranks of this host will talk over sockets",
             {{"reason", std::string(segment.status().message())}});
  LOCKSTEP_RETURN_IF_ERROR(CheckRoom(floats));
  return CreatePrivate(floats);
}

}  // namespace lockstep::train
