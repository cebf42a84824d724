#include "tests/support/cuda_sim/device_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <shared_mutex>

namespace cuda_sim {
namespace {

struct Block {
  std::size_t bytes = 0;
  std::unique_ptr<std::byte[]> real;
};
struct Memory {
  std::shared_mutex mutex;
  std::map<std::uintptr_t, Block> blocks;
  std::map<std::uintptr_t, Block> pinned;
  std::size_t used = 0;
};
Memory& TheMemory() {
  static Memory memory;
  return memory;
}

}  // namespace

void* AllocateDevice(std::size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  if (bytes > kDeviceBytes - memory.used) return nullptr;
  void* address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  auto real = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::memset(real.get(), 0xff, bytes);  // NaN in every floating-point type
  memory.used += bytes;
  memory.blocks[reinterpret_cast<std::uintptr_t>(address)] = {.bytes = bytes,
                                                              .real = std::move(real)};
  return address;
}

bool FreeDevice(const void* address) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  const auto found = memory.blocks.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == memory.blocks.end()) return false;
  memory.used -= found->second.bytes;
  ::munmap(const_cast<void*>(address), found->second.bytes);
  memory.blocks.erase(found);
  return true;
}

const void* RealAddress(const void* address) {
  if (address == nullptr) return nullptr;
  Memory& memory = TheMemory();
  const std::shared_lock lock(memory.mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const auto above = memory.blocks.upper_bound(number);
  if (above != memory.blocks.begin()) {
    const auto& [begin, block] = *std::prev(above);
    // The end is an address too: of an empty tensor there.
    if (number <= begin + block.bytes) return block.real.get() + (number - begin);
  }
  std::fprintf(stderr, "cuda_sim: %p is not device memory\n", address);
  std::abort();
}

void* AllocatePinned(std::size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  auto real = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::memset(real.get(), 0xff, bytes);
  void* const address = real.get();
  memory.pinned[reinterpret_cast<std::uintptr_t>(address)] = {.bytes = bytes,
                                                              .real = std::move(real)};
  return address;
}

bool FreePinned(const void* address) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  return memory.pinned.erase(reinterpret_cast<std::uintptr_t>(address)) == 1;
}

bool IsPinned(const void* address) {
  Memory& memory = TheMemory();
  const std::shared_lock lock(memory.mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const auto above = memory.pinned.upper_bound(number);
  if (above == memory.pinned.begin()) return false;
  const auto& [begin, block] = *std::prev(above);
  return number < begin + block.bytes;
}

std::size_t FreeDeviceBytes() {
  Memory& memory = TheMemory();
  const std::shared_lock lock(memory.mutex);
  return kDeviceBytes - memory.used;
}

}  // namespace cuda_sim
