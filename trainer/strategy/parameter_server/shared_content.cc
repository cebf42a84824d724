#include "trainer/strategy/parameter_server/shared_content.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "trainer/core/available_memory.h"

namespace lockstep::train {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "works across processes");

// The counter has a cache line of its own.
std::size_t BytesFor(std::int64_t floats) {
  return kArenaAlignment + static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace

void SharedContent::Use(std::byte* memory) {
  sequence_ = reinterpret_cast<std::atomic<std::uint64_t>*>(memory);
  data_ = reinterpret_cast<float*>(memory + kArenaAlignment);
}

absl::StatusOr<std::unique_ptr<SharedContent>> SharedContent::Create(std::int64_t floats) {
  std::unique_ptr<SharedContent> content(new SharedContent(floats));
  auto segment = SharedSegment::Create(BytesFor(floats));
  if (segment.ok()) {
    content->segment_ = *std::move(segment);
    content->Use(content->segment_->data());
    return content;
  }
  if (const std::uint64_t available = AvailableMemory(); BytesFor(floats) > available) {
    return absl::ResourceExhaustedError(fmt::format(
        "parameter server: {} floats take {} bytes of memory, of which {} are available", floats,
        BytesFor(floats), available));
  }
  LogWarning("no memory to share with workers of this host",
             {{"reason", std::string(segment.status().message())}});
  content->private_.Reserve(BytesFor(floats));
  content->private_.Allocate();
  content->Use(content->private_.At(0));
  return content;
}

absl::StatusOr<std::unique_ptr<SharedContent>> SharedContent::Attach(const std::string& locator,
                                                                     std::int64_t floats) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto parsed, SharedSegment::Locator::Parse(locator));
  std::unique_ptr<SharedContent> content(new SharedContent(floats));
  LOCKSTEP_ASSIGN_OR_RETURN(content->segment_, SharedSegment::Attach(parsed, BytesFor(floats)));
  content->Use(content->segment_->data());
  return content;
}

std::string SharedContent::locator() const {
  return segment_ == nullptr ? "" : segment_->locator().ToString();
}

void SharedContent::Update(const std::function<void()>& change) {
  const std::uint64_t before = sequence_->load(std::memory_order_relaxed);
  sequence_->store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // before any of the floats
  change();
  sequence_->store(before + 2, std::memory_order_release);
}

std::uint64_t SharedContent::sequence() const {
  return sequence_->load(std::memory_order_acquire);
}

bool SharedContent::Read(std::uint64_t sequence, const std::function<void()>& copy) const {
  if (sequence % 2 != 0 || this->sequence() != sequence) return false;
  copy();
  std::atomic_thread_fence(std::memory_order_acquire);  // after all of the floats
  return sequence_->load(std::memory_order_relaxed) == sequence;
}

}  // namespace lockstep::train
