#include "trainer/core/arena.h"

#include "base/check.h"

namespace lockstep::train {

Arena::~Arena() {
  if (memory_ != nullptr) source_->Free(memory_, size_);
}

std::size_t Arena::Reserve(std::size_t bytes) {
  LOCKSTEP_CHECK(memory_ == nullptr, "arena: Reserve({}) after Allocate()", bytes);
  const std::size_t offset = size_;
  size_ += Aligned(bytes);
  return offset;
}

void Arena::Allocate(MemorySource& source) {
  LOCKSTEP_CHECK(memory_ == nullptr, "arena: allocated twice");
  if (size_ == 0) size_ = kArenaAlignment;
  memory_ = source.Allocate(size_);
  source_ = &source;
}

std::byte* Arena::At(std::size_t offset) const {
  LOCKSTEP_CHECK(memory_ != nullptr && offset <= size_, "arena: offset {} of {} bytes", offset,
                 size_);
  return memory_ + offset;
}

}  // namespace lockstep::train
