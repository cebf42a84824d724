#include "trainer/backend/cuda/device/memory.h"

#include <fmt/format.h>

#include "trainer/backend/cuda/layout/copy.h"
#include "trainer/backend/out_of_memory.h"

namespace lockstep::train::cuda {
namespace {

DeviceAddress AllocateOn(const Device& device, std::size_t bytes) {
  DeviceAddress memory = 0;
  const int result = device.driver().MemAlloc(&memory, bytes);
  if (result == kErrorOutOfMemory) {
    std::size_t free = 0, total = 0;
    device.Check(device.driver().MemGetInfo(&free, &total), "cuMemGetInfo");
    throw OutOfMemory(fmt::format("back end cuda: {} bytes are needed, and {} of {} are free on {}",
                                  bytes, free, total, device.name()));
  }
  device.Check(result, "cuMemAlloc");
  return memory;
}

}  // namespace

std::byte* CudaMemory::Allocate(std::size_t bytes) {
  const DeviceAddress memory = AllocateOn(device_, bytes);
  ZeroBytes(device_, reinterpret_cast<void*>(memory), bytes);
  device_.Synchronize();  // streams beside the ops' may use it at once
  return reinterpret_cast<std::byte*>(memory);
}

void CudaMemory::Free(std::byte* memory, std::size_t) {
  device_.driver_for_cleanup().MemFree(AddressOf(memory));
}

Buffer::~Buffer() {
  if (memory_ == 0) return;
  const DriverApi& driver = device_.driver_for_cleanup();
  driver.StreamSynchronize(device_.stream());
  driver.MemFree(memory_);
}

void* Buffer::Reserve(std::size_t bytes) {
  if (bytes > bytes_) {
    if (memory_ != 0) {
      device_.Synchronize();
      device_.Check(device_.driver().MemFree(memory_), "cuMemFree");
      memory_ = 0;
      bytes_ = 0;
    }
    memory_ = AllocateOn(device_, bytes);
    bytes_ = bytes;
  }
  return reinterpret_cast<void*>(memory_);
}

const void* Buffer::Upload(const void* from, std::size_t bytes) {
  void* const to = Reserve(bytes);
  device_.Check(device_.driver().MemcpyHtoDAsync(AddressOf(to), from, bytes, device_.stream()),
                "cuMemcpyHtoDAsync");
  device_.Synchronize();  // the caller may free the table
  return to;
}

}  // namespace lockstep::train::cuda
