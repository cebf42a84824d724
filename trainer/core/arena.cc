#include "trainer/core/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace lockstep::train {

Arena::~Arena() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

std::size_t Arena::Reserve(std::size_t bytes) {
  LOCKSTEP_CHECK(memory_ == nullptr, "arena: Reserve({}) after Allocate()", bytes);
  const std::size_t offset = size_;
  size_ += (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  return offset;
}

void Arena::Allocate() {
  LOCKSTEP_CHECK(memory_ == nullptr, "arena: allocated twice");
  if (size_ == 0) size_ = kArenaAlignment;
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  LOCKSTEP_CHECK(memory != MAP_FAILED, "arena: cannot map {} bytes: {}", size_,
                 std::strerror(errno));
  ::madvise(memory, size_, MADV_HUGEPAGE);  // a hint: refusal only costs speed
  memory_ = static_cast<std::byte*>(memory);
}

std::byte* Arena::At(std::size_t offset) const {
  LOCKSTEP_CHECK(memory_ != nullptr && offset <= size_, "arena: offset {} of {} bytes", offset,
                 size_);
  return memory_ + offset;
}

}  // namespace lockstep::train
