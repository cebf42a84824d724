// The driver's functions on the simulated devices, GPUs of two multiprocessors. Like the real ones,
// they refuse threads without a current context, and copies from and to the host's pageable memory
// have used it when they return.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/cuda_sim/device_memory.h"
#include "tests/support/cuda_sim/devices.h"
#include "tests/support/cuda_sim/export.h"
#include "tests/support/cuda_sim/kernel_table.h"
#include "tests/support/cuda_sim/sim_stream.h"

namespace {

using cuda_sim::ContextError;
using cuda_sim::IsDevice;
using cuda_sim::Kernel;
using cuda_sim::SimStream;
using cuda_sim::UncapturedCall;
using enum cuda_sim::Result;

// The number of threads that a block may have.
constexpr unsigned kMostThreads = 1024;

// For a call that needs a context and cannot be captured: kSuccess if it may go on.
int UncapturedError() {
  if (const int error = ContextError()) return error;
  return UncapturedCall();
}

}  // namespace

CUDA_SIM_EXPORT int cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  return cuda_sim::VisibleDevices() > 0 ? kSuccess : kNoDevice;
}
CUDA_SIM_EXPORT int cuDriverGetVersion(int* version) {
  const char* set = std::getenv("CUDA_SIM_DRIVER");
  *version = set == nullptr ? 13000 : std::atoi(set);
  return kSuccess;
}
CUDA_SIM_EXPORT int cuGetErrorString(int error, const char** text) {
  switch (error) {
    case kSuccess:
      *text = "no error";
      return kSuccess;
    case kInvalidValue:
      *text = "invalid argument";
      return kSuccess;
    case kOutOfMemory:
      *text = "out of memory";
      return kSuccess;
    case kInvalidDevice:
      *text = "invalid device ordinal";
      return kSuccess;
    case kInvalidContext:
      *text = "invalid device context";
      return kSuccess;
    case kInvalidHandle:
      *text = "invalid resource handle";
      return kSuccess;
    case kNotFound:
      *text = "named symbol not found";
      return kSuccess;
    case kIllegalAddress:
      *text = "an illegal memory access was encountered";
      return kSuccess;
    case kCaptureUnsupported:
      *text = "operation not permitted when stream is capturing";
      return kSuccess;
    case kCaptureInvalidated:
      *text = "operation failed due to a previous error during capture";
      return kSuccess;
    default:
      *text = nullptr;
      return kInvalidValue;
  }
}
CUDA_SIM_EXPORT int cuDeviceGetCount(int* count) {
  *count = cuda_sim::VisibleDevices();
  return kSuccess;
}
CUDA_SIM_EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return IsDevice(ordinal) ? kSuccess : kInvalidDevice;
}
CUDA_SIM_EXPORT int cuDeviceGetName(char* name, int size, int device) {
  if (!IsDevice(device)) return kInvalidDevice;
  const std::string text = "simulated";
  if (size <= static_cast<int>(text.size())) return kInvalidValue;
  std::copy_n(text.c_str(), text.size() + 1, name);
  return kSuccess;
}
CUDA_SIM_EXPORT int cuDeviceGetUuid_v2(char* uuid, int device) {
  if (!IsDevice(device)) return kInvalidDevice;
  std::ranges::copy(cuda_sim::UuidOf(device), uuid);
  return kSuccess;
}
CUDA_SIM_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (!IsDevice(device)) return kInvalidDevice;
  switch (attribute) {
    case 16:  // multiprocessors
      *value = 2;
      return kSuccess;
    case 75:  // major compute capability
      *value = 9;
      return kSuccess;
    case 76:  // minor
      *value = 0;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
CUDA_SIM_EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (!IsDevice(device)) return kInvalidDevice;
  *context = cuda_sim::ContextOf(device);
  return kSuccess;
}
CUDA_SIM_EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  return IsDevice(device) ? kSuccess : kInvalidDevice;
}
CUDA_SIM_EXPORT int cuCtxSetCurrent(void* context) {
  return cuda_sim::SetContext(context) ? kSuccess : kInvalidContext;
}

CUDA_SIM_EXPORT int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const int error = ContextError()) return error;
  *free = cuda_sim::FreeDeviceBytes();
  *total = cuda_sim::kDeviceBytes;
  return kSuccess;
}
CUDA_SIM_EXPORT int cuMemAlloc_v2(std::uint64_t* memory, std::size_t bytes) {
  if (const int error = UncapturedError()) return error;
  if (bytes == 0) return kInvalidValue;
  void* const address = cuda_sim::AllocateDevice(bytes);
  *memory = reinterpret_cast<std::uint64_t>(address);
  return address == nullptr ? kOutOfMemory : kSuccess;
}
CUDA_SIM_EXPORT int cuMemFree_v2(std::uint64_t memory) {
  if (const int error = UncapturedError()) return error;
  return cuda_sim::FreeDevice(reinterpret_cast<const void*>(memory)) ? kSuccess : kInvalidValue;
}

CUDA_SIM_EXPORT int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  if (const int error = UncapturedError()) return error;
  if (bytes == 0 || flags != 0) return kInvalidValue;
  *memory = cuda_sim::AllocatePinned(bytes);
  return kSuccess;
}
CUDA_SIM_EXPORT int cuMemFreeHost(void* memory) {
  if (const int error = UncapturedError()) return error;
  return cuda_sim::FreePinned(memory) ? kSuccess : kInvalidValue;
}

// Streams, events and functions are addresses of the simulator's own objects.
CUDA_SIM_EXPORT int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes,
                                         SimStream* stream) {
  if (const int error = ContextError()) return error;
  if (cuda_sim::IsPinned(from)) {
    return stream->Enqueue([=] { std::memcpy(cuda_sim::RealAddress<void>(to), from, bytes); });
  }
  const auto* first = static_cast<const std::byte*>(from);
  return stream->EnqueueUncaptured([data = std::vector<std::byte>(first, first + bytes), to] {
    std::memcpy(cuda_sim::RealAddress<void>(to), data.data(), data.size());
  });
}
CUDA_SIM_EXPORT int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes,
                                         SimStream* stream) {
  if (const int error = ContextError()) return error;
  const auto copy = [=] { std::memcpy(to, cuda_sim::RealAddress<void>(from), bytes); };
  if (cuda_sim::IsPinned(to)) return stream->Enqueue(copy);
  const int queued = stream->EnqueueUncaptured(copy);
  return queued == kSuccess ? stream->Synchronize() : queued;
}
CUDA_SIM_EXPORT int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes,
                                         SimStream* stream) {
  if (const int error = ContextError()) return error;
  return stream->Enqueue([=] {
    std::memcpy(cuda_sim::RealAddress<void>(to), cuda_sim::RealAddress<void>(from), bytes);
  });
}
CUDA_SIM_EXPORT int cuMemsetD8Async(std::uint64_t memory, unsigned char value, std::size_t bytes,
                                    SimStream* stream) {
  if (const int error = ContextError()) return error;
  return stream->Enqueue([=] { std::memset(cuda_sim::RealAddress<void>(memory), value, bytes); });
}

// Any image holds all kernels of the simulator.
CUDA_SIM_EXPORT int cuModuleLoadData(const void** module, const void* image) {
  if (const int error = UncapturedError()) return error;
  *module = image;
  return image == nullptr ? kInvalidValue : kSuccess;
}
CUDA_SIM_EXPORT int cuModuleUnload(const void*) {
  return UncapturedError();
}
CUDA_SIM_EXPORT int cuModuleGetFunction(const Kernel** function, const void*, const char* name) {
  if (const int error = ContextError()) return error;
  *function = cuda_sim::FindKernel(name);
  return *function == nullptr ? kNotFound : kSuccess;
}
CUDA_SIM_EXPORT int cuLaunchKernel(const Kernel* function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, SimStream* stream,
                                   void** arguments, void** extra) {
  if (const int error = ContextError()) return error;
  const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
  if (threads == 0 || threads > kMostThreads || grid_x == 0 || grid_y == 0 || grid_z == 0 ||
      grid_y > 65535 || grid_z > 65535 || shared_bytes != 0 || extra != nullptr) {
    return kInvalidValue;
  }
  return stream->Enqueue(
      [=, thread = function->bind(arguments), device = cuda_sim::CurrentDevice()] {
        if (cuda_sim::FailsNow(device)) return;
        cuda_sim::RunGrid(*function, thread, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z});
      });
}
