#include "trainer/backend/async_reference/device_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/check.h"

namespace lockstep::train::async_reference {
namespace {

std::byte* Map(std::size_t bytes, int protection) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  LOCKSTEP_CHECK(memory != MAP_FAILED, "async-reference: cannot map {} bytes: {}", bytes,
                 std::strerror(errno));
  return static_cast<std::byte*>(memory);
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  while (!blocks_.empty()) {
    const auto& [address, block] = *blocks_.begin();
    Free(const_cast<std::byte*>(address), block.bytes);
  }
}

std::byte* DeviceMemory::Allocate(std::size_t bytes) {
  std::byte* const address = Map(bytes, PROT_NONE);
  blocks_[address] = {.bytes = bytes, .real = Map(bytes, PROT_READ | PROT_WRITE)};
  return address;
}

void DeviceMemory::Free(std::byte* memory, std::size_t bytes) {
  const auto found = blocks_.find(memory);
  LOCKSTEP_CHECK(found != blocks_.end() && found->second.bytes == bytes,
                 "async-reference: no block of {} bytes to free at {}", bytes,
                 static_cast<const void*>(memory));
  ::munmap(found->second.real, bytes);
  ::munmap(memory, bytes);
  blocks_.erase(found);
}

const void* DeviceMemory::Translate(const void* memory) const {
  if (memory == nullptr) return nullptr;
  const auto* address = static_cast<const std::byte*>(memory);
  const auto above = blocks_.upper_bound(address);
  const bool is_below_all = above == blocks_.begin();
  LOCKSTEP_CHECK(!is_below_all, "async-reference: {} is not device memory", memory);
  const auto& [begin, block] = *std::prev(above);
  // The end is an address too: of an empty tensor there.
  LOCKSTEP_CHECK(address <= begin + block.bytes, "async-reference: {} is not device memory",
                 memory);
  return block.real + (address - begin);
}

}  // namespace lockstep::train::async_reference
