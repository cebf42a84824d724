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
  // kernels for the GPU; DeviceGone if there are fewer GPUs than `devices`, although
  // CUDA_VISIBLE_DEVICES hides none of them; DeviceError if the driver refuses it.
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
  // Products of float32 may be of factors in TF32.
  bool rounds_to_tf32() const { return rounds_to_tf32_; }
  StreamHandle stream() const { return stream_; }

  // The driver's functions, with this GPU's context current in the calling thread.
  const DriverApi& driver() const;
  // The same for destructors. Ignores a refusal: then the driver also refuses what they call.
  const DriverApi& driver_for_cleanup() const noexcept;
  // NVIDIA's libraries, with this GPU's context current in the calling thread. Of one thread at a
  // time, as launches.
  const MatmulLibrary& matmul_library() const;
  const DnnLibrary& dnn_library() const;
  // Memory through which streams copy. Requires: the calling thread has called driver().
  PinnedPool& pinned() const { return *pinned_; }
  // Throws DeviceError if `result` is an error of the driver's function `call`.
  void CheckCall(int result, const char* call) const;
  // The same, and also if work of ours has failed: see Fail.
  void Check(int result, const char* call) const;
  // Says that a function on the host, which a stream called, has failed. Every later Check throws.
  void Fail(const std::string& reason);
  // Keeps what a stream is to call until EndCall, or until the device is closed: one that has
  // failed never calls it.
  void KeepCall(std::shared_ptr<void> call);
  // Around a function on the host that a stream calls. AwaitCalls blocks while one runs: a device
  // that has failed drops its queues, but not what it has already called. `call`: see KeepCall.
  void BeginCall();
  void EndCall(const void* call);
  void DropCall(const void* call);  // forgets a call that no stream accepted
  void AwaitCalls() const;
  // Blocks until the work of the ops' stream is done.
  void Synchronize() const;
  // From BeginRecording to EndRecording, the calling thread's work is recorded (cuda_graph.h).
  void BeginRecording() { recording_thread_ = std::this_thread::get_id(); }
  void EndRecording() { recording_thread_ = std::thread::id(); }
  // Throws DeviceError if the calling thread records: the driver would record `what`, although it
  // works only once.
  void RefuseInRecording(const char* what) const;

  template <typename... Parameters, typename... Arguments>
  void Launch(KernelName<void(Parameters...)> kernel, const Grid& grid,
              const Arguments&... arguments) const {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments));
    LaunchWith<Parameters...>(kernel.name, grid, static_cast<Parameters>(arguments)...);
  }
  // As many blocks of kThreads threads as fill the GPU, but not more than `size` threads: for
  // kernels that walk `size` elements with ForEach.
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
