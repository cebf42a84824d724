#include "trainer/comm/root_memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/comm/shm/shared_segment.h"

namespace lockstep::train {
namespace {

// A shared segment's data follow its header, so room for one precedes a block that may become one.
constexpr std::size_t kHeader = SharedSegment::kHeaderBytes;

}  // namespace

RootMemory::RootMemory(bool is_root) : is_root_(is_root) {}
RootMemory::~RootMemory() = default;

std::byte* RootMemory::Allocate(std::size_t bytes) {
  LOCKSTEP_CHECK(block_ == nullptr, "root memory: allocated twice");
  bytes_ = bytes;
  if (is_root_) {
    auto segment = SharedSegment::Create(bytes);
    if (segment.ok()) {
      segment_ = *std::move(segment);
      return block_ = segment_->data();
    }
    LogWarning("no shared memory for parameters: each process will copy them",
               {{"reason", std::string(segment.status().message())}});
  }
  MapOwn(nullptr);
  return block_;
}

// Zeros, in place of what is mapped `at` this address; null: anywhere.
void RootMemory::MapOwn(void* at) {
  void* const mapped = mmap(at, kHeader + bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | (at == nullptr ? 0 : MAP_FIXED), -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  block_ = static_cast<std::byte*>(mapped) + kHeader;
}

void RootMemory::Free(std::byte* memory, std::size_t bytes) {
  LOCKSTEP_CHECK(memory == block_ && bytes == bytes_, "root memory: {} bytes freed, expected {}",
                 bytes, bytes_);
  if (segment_ == nullptr) munmap(block_ - kHeader, kHeader + bytes_);
  segment_.reset();
  block_ = nullptr;
}

std::string RootMemory::locator() const {
  return segment_ == nullptr ? "" : segment_->locator().ToString();
}

absl::Status RootMemory::Map(const std::string& locator) {
  LOCKSTEP_CHECK(!is_root_ && block_ != nullptr, "root memory: nothing to map it to");
  LOCKSTEP_ASSIGN_OR_RETURN(const auto where, SharedSegment::Locator::Parse(locator));
  LOCKSTEP_RETURN_IF_ERROR(SharedSegment::AttachAt(where, bytes_, block_));
  is_mapped_ = true;
  return absl::OkStatus();
}

void RootMemory::Withdraw() {
  is_shared_ = false;
  if (std::exchange(is_mapped_, false)) MapOwn(block_ - kHeader);
}

}  // namespace lockstep::train
