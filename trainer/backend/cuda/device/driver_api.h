// The functions of NVIDIA's driver that this back end calls. The declarations are our own, so that
// building needs no CUDA toolkit; the preset `cuda` compares them with cuda.h.
//
// It is the driver's interface, not the runtime's: it comes with every driver, loads kernels from
// memory, and leaves one library fewer to carry.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::train::cuda {

using DeviceAddress = std::uint64_t;  // CUdeviceptr; equal to the pointer, by unified addressing
using ContextHandle = struct OpaqueContext*;
using StreamHandle = struct OpaqueStream*;
using EventHandle = struct OpaqueEvent*;
using ModuleHandle = struct OpaqueModule*;
using FunctionHandle = struct OpaqueFunction*;
using GraphHandle = struct OpaqueGraph*;          // what a capture has gathered
using GraphExecHandle = struct OpaqueGraphExec*;  // the same, ready to be launched
using HostFunction = void (*)(void* argument);
struct Uuid {
  char bytes[16];  // CUuuid
};

inline constexpr int kSuccess = 0;
inline constexpr int kErrorOutOfMemory = 2;
inline constexpr int kErrorNoDevice = 100;
inline constexpr int kErrorNoBinaryForGpu = 209;
inline constexpr int kErrorNotFound = 500;
inline constexpr int kErrorNotReady = 600;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureThreadLocal = 1;  // a CUstreamCaptureMode
// Attributes of a device.
inline constexpr int kAttributeMultiprocessorCount = 16;
inline constexpr int kAttributeComputeCapabilityMajor = 75;
inline constexpr int kAttributeComputeCapabilityMinor = 76;

// X(member, symbol, arguments); all return a CUresult. Symbols with _v2 are what cuda.h renames the
// functions to.
#define LOCKSTEP_CUDA_DRIVER_FUNCTIONS(X)                                                          \
  X(Init, "cuInit", (unsigned flags))                                                              \
  X(DriverGetVersion, "cuDriverGetVersion", (int* version))                                        \
  X(GetErrorString, "cuGetErrorString", (int error, const char** text))                            \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                              \
  X(DeviceGet, "cuDeviceGet", (int* device, int ordinal))                                          \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int size, int device))                          \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))           \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", (Uuid * uuid, int device))                                \
  X(PrimaryContextRetain, "cuDevicePrimaryCtxRetain", (ContextHandle * context, int device))       \
  X(PrimaryContextRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                           \
  X(ContextSetCurrent, "cuCtxSetCurrent", (ContextHandle context))                                 \
  X(MemGetInfo, "cuMemGetInfo_v2", (std::size_t* free, std::size_t* total))                        \
  X(MemAlloc, "cuMemAlloc_v2", (DeviceAddress * memory, std::size_t bytes))                        \
  X(MemFree, "cuMemFree_v2", (DeviceAddress memory))                                               \
  X(MemHostAlloc, "cuMemHostAlloc", (void** memory, std::size_t bytes, unsigned flags))            \
  X(MemFreeHost, "cuMemFreeHost", (void* memory))                                                  \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                       \
    (DeviceAddress to, const void* from, std::size_t bytes, StreamHandle stream))                  \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                       \
    (void* to, DeviceAddress from, std::size_t bytes, StreamHandle stream))                        \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                       \
    (DeviceAddress to, DeviceAddress from, std::size_t bytes, StreamHandle stream))                \
  X(MemsetD8Async, "cuMemsetD8Async",                                                              \
    (DeviceAddress memory, unsigned char value, std::size_t bytes, StreamHandle stream))           \
  X(StreamCreate, "cuStreamCreate", (StreamHandle * stream, unsigned flags))                       \
  X(StreamDestroy, "cuStreamDestroy_v2", (StreamHandle stream))                                    \
  X(StreamSynchronize, "cuStreamSynchronize", (StreamHandle stream))                               \
  X(StreamWaitEvent, "cuStreamWaitEvent",                                                          \
    (StreamHandle stream, EventHandle event, unsigned flags))                                      \
  X(LaunchHostFunc, "cuLaunchHostFunc",                                                            \
    (StreamHandle stream, HostFunction function, void* argument))                                  \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (StreamHandle stream, int mode))                \
  X(StreamEndCapture, "cuStreamEndCapture", (StreamHandle stream, GraphHandle * graph))            \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                               \
    (GraphExecHandle * exec, GraphHandle graph, unsigned long long flags))                         \
  X(GraphDestroy, "cuGraphDestroy", (GraphHandle graph))                                           \
  X(GraphLaunch, "cuGraphLaunch", (GraphExecHandle exec, StreamHandle stream))                     \
  X(GraphExecDestroy, "cuGraphExecDestroy", (GraphExecHandle exec))                                \
  X(EventCreate, "cuEventCreate", (EventHandle * event, unsigned flags))                           \
  X(EventDestroy, "cuEventDestroy_v2", (EventHandle event))                                        \
  X(EventRecord, "cuEventRecord", (EventHandle event, StreamHandle stream))                        \
  X(EventQuery, "cuEventQuery", (EventHandle event))                                               \
  X(EventSynchronize, "cuEventSynchronize", (EventHandle event))                                   \
  X(ModuleLoadData, "cuModuleLoadData", (ModuleHandle * module, const void* image))                \
  X(ModuleUnload, "cuModuleUnload", (ModuleHandle module))                                         \
  X(ModuleGetFunction, "cuModuleGetFunction",                                                      \
    (FunctionHandle * function, ModuleHandle module, const char* name))                            \
  X(LaunchKernel, "cuLaunchKernel",                                                                \
    (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream,               \
     void** arguments, void** extra))

struct DriverApi {
#define LOCKSTEP_MEMBER(member, symbol, arguments) int(*member) arguments = nullptr;
  LOCKSTEP_CUDA_DRIVER_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

inline DeviceAddress AddressOf(const void* memory) {
  return reinterpret_cast<DeviceAddress>(memory);
}

// Opens libcuda.so.1. Throws DeviceError if it is not there or lacks a function. Thread-safe.
const DriverApi& Driver();

}  // namespace lockstep::train::cuda
