// One GPU: its context, the kernels, and the stream of the ops.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>

#include "trainer/backend/cuda/device/driver_api.h"
#include "trainer/backend/cuda/device/pinned_pool.h"

namespace lockstep::train::cuda {

class MatmulLibrary;
class DnnLibrary;

// A kernel of kernels/kernels.h. Its type is that of the kernel's arguments, so that a launch with
// others does not compile.
template <typename Signature>
struct KernelName {
  const char* name;
};
#define LOCKSTEP_CUDA_KERNEL(kernel) \
  (::lockstep::train::cuda::KernelName<decltype(::lockstep::train::cuda::kernels::kernel)>{#kernel})

struct Grid {
  unsigned blocks_x = 1, blocks_y = 1;
  unsigned threads_x = 1, threads_y = 1;
};

// Kernels are launched by one thread at a time; the rest is thread-safe.
class Device {
 public:
  // Opens GPU `ordinal` of those that the process may see, and NVIDIA's libraries. Throws
  // DeviceMissing if there is no driver, no such GPU, a library is not there, or this build has no
  // kernels for the GPU; DeviceGone if the process sees fewer GPUs than both `devices` and
  // CUDA_VISIBLE_DEVICES say; OutOfMemory or another DeviceError if the driver refuses the GPU.
  // `rounds_to_tf32`, `devices`: see BackendOptions.
  Device(int ordinal, bool rounds_to_tf32, int devices = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }  // "NVIDIA H100 80GB HBM3"
  int multiprocessors() const { return multiprocessors_; }
  int compute_capability() const { return compute_capability_; }  // 90 for 9.0
  int DriverVersion() const;  // 1000 * major + 10 * minor of the newest CUDA that it knows
  const std::array<std::byte, 16>& uuid() const { return uuid_; }
  // True if products of float32 may round their factors to TF32.
  bool rounds_to_tf32() const { return rounds_to_tf32_; }
  StreamHandle stream() const { return stream_; }

  // Makes this GPU's context current in the calling thread and returns the driver's functions.
  // Throws DeviceError.
  const DriverApi& driver() const;
  // Like driver(), for destructors: ignores an error, since the calls that follow then fail as
  // well.
  const DriverApi& driver_for_cleanup() const noexcept;
  // Like driver(), but return NVIDIA's libraries. Call them, like launches, from one thread at a
  // time.
  const MatmulLibrary& matmul_library() const;
  const DnnLibrary& dnn_library() const;
  // Memory through which streams copy. Requires: the calling thread has called driver().
  PinnedPool& pinned() const { return *pinned_; }
  // Throws DeviceError if `result` is an error of the driver's function `call`.
  void CheckCall(int result, const char* call) const;
  // Like CheckCall; also throws DeviceError once Fail has been called.
  void Check(int result, const char* call) const;
  // Records that a host function that a stream called has failed. Every later Check throws.
  void Fail(const std::string& reason);
  // Keeps `call`, which a stream is to call, alive until EndCall or DropCall, or until the device
  // is destroyed: a failed device never makes the call.
  void KeepCall(std::shared_ptr<void> call);
  // BeginCall and EndCall enclose a host function that a stream calls. AwaitCalls blocks while such
  // a function runs: a failed device drops its queues, but not a call in progress. `call`: see
  // KeepCall.
  void BeginCall();
  void EndCall(const void* call);
  void DropCall(const void* call);  // forgets a call that has ended, or that no stream accepted
  void AwaitCalls() const;
  // Blocks until the work of the ops' stream is done.
  void Synchronize() const;
  // From BeginRecording to EndRecording, the calling thread's work is recorded (cuda_graph.h).
  void BeginRecording() { recording_thread_ = std::this_thread::get_id(); }
  void EndRecording() { recording_thread_ = std::thread::id(); }
  // Throws DeviceError if the calling thread is recording, because the driver would record `what`,
  // which works only once.
  void RefuseInRecording(const char* what) const;

  template <typename... Parameters, typename... Arguments>
  void Launch(KernelName<void(Parameters...)> kernel, const Grid& grid,
              const Arguments&... arguments) const {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments));
    LaunchWith<Parameters...>(kernel.name, grid, static_cast<Parameters>(arguments)...);
  }
  // Returns the grid for a kernel that walks `size` elements with ForEach: as many blocks of
  // kThreads threads as fill the GPU, but no more blocks than `size` elements need.
  Grid GridFor(std::int64_t size) const;
  static constexpr unsigned kThreads = 256;
  // The threads of a block that works on `size` elements: a power of two, from a warp to kThreads.
  static unsigned ThreadsFor(std::int64_t size);

 private:
  void RequireGpu(int ordinal, int devices) const;
  void LoadKernels();
  void Close() noexcept;
  int Attribute(int attribute) const;
  template <typename... Parameters>
  void LaunchWith(const char* name, const Grid& grid, Parameters... parameters) const {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&parameters))...};
    LaunchKernel(name, grid, pointers);
  }
  void LaunchKernel(const char* name, const Grid& grid, void** arguments) const;
  FunctionHandle Find(std::string_view name) const;

  const DriverApi& driver_;
  const bool rounds_to_tf32_;
  int device_ = 0;
  ContextHandle context_ = nullptr;
  ModuleHandle module_ = nullptr;
  StreamHandle stream_ = nullptr;
  std::string name_;
  std::array<std::byte, 16> uuid_ = {};
  int multiprocessors_ = 1, compute_capability_ = 0;
  mutable std::unordered_map<std::string_view, FunctionHandle> kernels_;  // found so far
  std::unique_ptr<const MatmulLibrary> matmul_library_;
  std::unique_ptr<const DnnLibrary> dnn_library_;
  std::unique_ptr<PinnedPool> pinned_;
  mutable std::mutex mutex_;
  mutable std::condition_variable calls_ended_;
  std::atomic<std::thread::id> recording_thread_ = std::thread::id();
  std::unordered_map<const void*, std::shared_ptr<void>> kept_calls_;  // guarded by mutex_
  int calls_ = 0;                                                      // guarded by mutex_
  std::string failure_;                                                // guarded by mutex_
};

}  // namespace lockstep::train::cuda
