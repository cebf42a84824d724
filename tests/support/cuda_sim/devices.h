// The simulated GPUs that a process sees, and which of them a thread uses. They share the memory of
// device_memory.h.
#pragma once

#include <array>

#include "tests/support/cuda_sim/result.h"

namespace cuda_sim {

// As many as CUDA_VISIBLE_DEVICES names; one without it, which is "0". With CUDA_SIM_GONE=N, the
// last N of these have fallen off the bus.
int VisibleDevices();
bool IsDevice(int ordinal);
// Processes that see the same name see the same GPU.
std::array<char, 16> UuidOf(int ordinal);

// The handle of a device's context.
void* ContextOf(int ordinal);
// Sets the calling thread's; false if `context` is none. Null is allowed.
bool SetContext(const void* context);
// -1: the thread has no context.
int CurrentDevice();
// Whether the calling thread may use its device: kSuccess, kInvalidContext without a context, or
// kIllegalAddress once the device has failed.
Result ContextError();

// A real device fails for good when a kernel reaches for memory that is none: from then on, nothing
// that is queued runs, and every call of the context returns kIllegalAddress. The simulator ends
// the process instead, because that is easier to find. But with CUDA_SIM_FAILS_AT=N, a device of
// this process fails so in place of running the process' N-th kernel, counted from 1.
bool HasFailed(int ordinal);
// Counts a kernel of the device; true if the device fails at it.
bool FailsNow(int ordinal);

}  // namespace cuda_sim
