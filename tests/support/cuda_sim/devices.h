// The simulated GPUs that a process sees, and which of them a thread uses. They share the memory of
// device_memory.h.
#pragma once

#include <array>

namespace cuda_sim {

// As many as CUDA_VISIBLE_DEVICES names; one without it, which is "0".
int VisibleDevices();
bool IsDevice(int ordinal);
// Processes that see the same name see the same GPU.
std::array<char, 16> UuidOf(int ordinal);

// The handle of a device's context.
void* ContextOf(int ordinal);
// Of the calling thread; false if it is none. Null is allowed.
bool SetContext(const void* context);
// -1: the thread has no context.
int CurrentDevice();
inline bool HasContext() {
  return CurrentDevice() >= 0;
}

}  // namespace cuda_sim
