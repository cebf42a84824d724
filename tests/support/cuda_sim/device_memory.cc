#include "tests/support/cuda_sim/device_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <shared_mutex>

namespace cuda_sim {
namespace {

// Where a GPU's allocations begin: kernels read up to 32 bytes at once, at multiples of them.
constexpr std::align_val_t kAlignment{256};
struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};
using RealMemory = std::unique_ptr<std::byte[], FreeAligned>;

struct Block {
  std::size_t bytes = 0;
  RealMemory real;
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

using Blocks = std::map<std::uintptr_t, Block>;

std::uintptr_t NumberOf(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

// The last block that begins at or before the address, or the end.
Blocks::const_iterator BlockBelow(const Blocks& blocks, const void* address) {
  const auto above = blocks.upper_bound(NumberOf(address));
  return above == blocks.begin() ? blocks.end() : std::prev(above);
}

// Filled with what is NaN in every floating-point type.
RealMemory MakeFilled(std::size_t bytes) {
  RealMemory memory(static_cast<std::byte*>(::operator new[](bytes, kAlignment)));
  std::memset(memory.get(), 0xff, bytes);
  return memory;
}

}  // namespace

void* AllocateDevice(std::size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  if (bytes > kDeviceBytes - memory.used) return nullptr;
  void* address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  memory.used += bytes;
  memory.blocks[NumberOf(address)] = {.bytes = bytes, .real = MakeFilled(bytes)};
  return address;
}

bool FreeDevice(const void* address) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  const auto found = memory.blocks.find(NumberOf(address));
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
  if (const auto at = BlockBelow(memory.blocks, address); at != memory.blocks.end()) {
    const std::uintptr_t offset = NumberOf(address) - at->first;
    // The end is an address too: of an empty tensor there.
    if (offset <= at->second.bytes) return at->second.real.get() + offset;
  }
  std::fprintf(stderr, "cuda_sim: %p is not device memory\n", address);
  std::abort();
}

void* AllocatePinned(std::size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  auto real = MakeFilled(bytes);
  void* const address = real.get();
  memory.pinned[NumberOf(address)] = {.bytes = bytes, .real = std::move(real)};
  return address;
}

bool FreePinned(const void* address) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  return memory.pinned.erase(NumberOf(address)) == 1;
}

bool IsPinned(const void* address) {
  Memory& memory = TheMemory();
  const std::shared_lock lock(memory.mutex);
  const auto at = BlockBelow(memory.pinned, address);
  return at != memory.pinned.end() && NumberOf(address) - at->first < at->second.bytes;
}

std::size_t FreeDeviceBytes() {
  Memory& memory = TheMemory();
  const std::shared_lock lock(memory.mutex);
  return kDeviceBytes - memory.used;
}

}  // namespace cuda_sim
