// Memory that is mapped at two addresses: the one that Allocate returns, where every access faults,
// and the real one, which only the device's ops use.
#pragma once

#include <cstddef>
#include <map>

#include "trainer/core/memory_source.h"

namespace lockstep::train::async_reference {

// Not thread-safe.
class DeviceMemory final : public MemorySource {
 public:
  ~DeviceMemory() override;
  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* memory, std::size_t bytes) override;

  // Returns the device's address for one within an allocation; null for null. Throws CheckFailure
  // if `memory` is not device memory.
  template <typename T>
  T* Real(T* memory) const {
    return static_cast<T*>(const_cast<void*>(Translate(memory)));
  }

 private:
  struct Block {
    std::size_t bytes = 0;
    std::byte* real = nullptr;
  };
  const void* Translate(const void* memory) const;

  std::map<const std::byte*, Block> blocks_;  // by the address that Allocate returned
};

}  // namespace lockstep::train::async_reference
