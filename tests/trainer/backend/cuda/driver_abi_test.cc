// What driver_api.h declares, against NVIDIA's cuda.h.
#include <cuda.h>

#include <algorithm>

#include "tests/trainer/backend/cuda/same_abi.h"
#include "trainer/backend/cuda/device/driver_api.h"

namespace lockstep::train::cuda {

template <>
inline constexpr bool kIsSameNamed<OpaqueContext, CUctx_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueStream, CUstream_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueEvent, CUevent_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueModule, CUmod_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueFunction, CUfunc_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueGraph, CUgraph_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueGraphExec, CUgraphExec_st> = true;
template <>
inline constexpr bool kIsSameNamed<Uuid, CUuuid_st> = true;

namespace {

LOCKSTEP_SAME_VALUE(kSuccess, CUDA_SUCCESS);
LOCKSTEP_SAME_VALUE(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
LOCKSTEP_SAME_VALUE(kErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
LOCKSTEP_SAME_VALUE(kErrorNoDevice, CUDA_ERROR_NO_DEVICE);
LOCKSTEP_SAME_VALUE(kErrorNotFound, CUDA_ERROR_NOT_FOUND);
LOCKSTEP_SAME_VALUE(kErrorNotReady, CUDA_ERROR_NOT_READY);
LOCKSTEP_SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
LOCKSTEP_SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
LOCKSTEP_SAME_VALUE(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
LOCKSTEP_SAME_VALUE(kAttributeMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
LOCKSTEP_SAME_VALUE(kAttributeComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
LOCKSTEP_SAME_VALUE(kAttributeComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
LOCKSTEP_SAME_VALUE(sizeof(Uuid), sizeof(CUuuid));
static_assert(IsSameType<DeviceAddress, CUdeviceptr>());

// Every function of the table, in its order.
#define LOCKSTEP_DRIVER_FUNCTIONS_OF_NVIDIA(X)           \
  X(Init, cuInit)                                        \
  X(DriverGetVersion, cuDriverGetVersion)                \
  X(GetErrorString, cuGetErrorString)                    \
  X(DeviceGetCount, cuDeviceGetCount)                    \
  X(DeviceGet, cuDeviceGet)                              \
  X(DeviceGetName, cuDeviceGetName)                      \
  X(DeviceGetAttribute, cuDeviceGetAttribute)            \
  X(DeviceGetUuid, cuDeviceGetUuid_v2)                   \
  X(PrimaryContextRetain, cuDevicePrimaryCtxRetain)      \
  X(PrimaryContextRelease, cuDevicePrimaryCtxRelease_v2) \
  X(ContextSetCurrent, cuCtxSetCurrent)                  \
  X(MemGetInfo, cuMemGetInfo_v2)                         \
  X(MemAlloc, cuMemAlloc_v2)                             \
  X(MemFree, cuMemFree_v2)                               \
  X(MemHostAlloc, cuMemHostAlloc)                        \
  X(MemFreeHost, cuMemFreeHost)                          \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)               \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)               \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)               \
  X(MemsetD8Async, cuMemsetD8Async)                      \
  X(StreamCreate, cuStreamCreate)                        \
  X(StreamDestroy, cuStreamDestroy_v2)                   \
  X(StreamSynchronize, cuStreamSynchronize)              \
  X(StreamWaitEvent, cuStreamWaitEvent)                  \
  X(LaunchHostFunc, cuLaunchHostFunc)                    \
  X(StreamBeginCapture, cuStreamBeginCapture_v2)         \
  X(StreamEndCapture, cuStreamEndCapture)                \
  X(GraphInstantiate, cuGraphInstantiateWithFlags)       \
  X(GraphDestroy, cuGraphDestroy)                        \
  X(GraphLaunch, cuGraphLaunch)                          \
  X(GraphExecDestroy, cuGraphExecDestroy)                \
  X(EventCreate, cuEventCreate)                          \
  X(EventDestroy, cuEventDestroy_v2)                     \
  X(EventRecord, cuEventRecord)                          \
  X(EventQuery, cuEventQuery)                            \
  X(EventSynchronize, cuEventSynchronize)                \
  X(ModuleLoadData, cuModuleLoadData)                    \
  X(ModuleUnload, cuModuleUnload)                        \
  X(ModuleGetFunction, cuModuleGetFunction)              \
  X(LaunchKernel, cuLaunchKernel)

#define LOCKSTEP_SAME_DRIVER_FUNCTION(member, function) \
  LOCKSTEP_SAME_FUNCTION(DriverApi, member, function)
LOCKSTEP_DRIVER_FUNCTIONS_OF_NVIDIA(LOCKSTEP_SAME_DRIVER_FUNCTION)

constexpr NamedFunction kTable[] = {LOCKSTEP_CUDA_DRIVER_FUNCTIONS(LOCKSTEP_TABLE_ROW)};
constexpr NamedFunction kCompared[] = {LOCKSTEP_DRIVER_FUNCTIONS_OF_NVIDIA(LOCKSTEP_FUNCTION_ROW)};
static_assert(std::ranges::equal(kTable, kCompared), "a function is not compared with NVIDIA's");

}  // namespace
}  // namespace lockstep::train::cuda
