// Memory of a GPU.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/memory_source.h"

namespace lockstep::train::cuda {

class CudaMemory final : public MemorySource {
 public:
  // Requires: `device` outlives this.
  explicit CudaMemory(const Device& device) : device_(device) {}
  // Throws OutOfMemory, which says how much is free, if there is not enough.
  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* memory, std::size_t bytes) override;

 private:
  const Device& device_;
};

// Memory that an op or the back end owns beside the arenas.
class Buffer {
 public:
  explicit Buffer(const Device& device) : device_(device) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Returns memory of at least `bytes`. If there is less so far, waits for the ops and replaces it:
  // contents and earlier pointers are lost. Throws as CudaMemory::Allocate.
  void* Reserve(std::size_t bytes);
  template <typename T>
  T* Reserve(std::int64_t size) {
    return static_cast<T*>(Reserve(static_cast<std::size_t>(size) * sizeof(T)));
  }
  // Reserves memory for `table`, copies it there in the order of the ops, and waits for them.
  template <typename T>
  const T* Upload(const std::vector<T>& table) {
    return static_cast<const T*>(Upload(table.data(), table.size() * sizeof(T)));
  }

 private:
  const void* Upload(const void* from, std::size_t bytes);

  const Device& device_;
  DeviceAddress memory_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::train::cuda
