#include "trainer/backend/cuda/device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "trainer/backend/cuda/device/dnn_graph.h"
#include "trainer/backend/cuda/device/fatbin.h"
#include "trainer/backend/cuda/device/matmul.h"
#include "trainer/backend/device_missing.h"
#include "trainer/backend/out_of_memory.h"

namespace lockstep::train::cuda {

namespace {

bool IsGpuName(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool is_number = !name.empty() && std::ranges::all_of(name, is_digit);
  return is_number || name.starts_with("GPU-") || name.starts_with("MIG-");
}

// How many GPUs CUDA_VISIBLE_DEVICES lets this process see; no limit where it is not set. CUDA
// ignores the first name that is not a GPU, such as -1, and every name after it.
int MostVisible() {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) return std::numeric_limits<int>::max();
  std::string_view names = list;
  int count = 0;
  while (true) {
    const std::size_t comma = names.find(',');
    if (!IsGpuName(names.substr(0, comma))) return count;
    ++count;
    if (comma == std::string_view::npos) return count;
    names.remove_prefix(comma + 1);
  }
}

}  // namespace

Device::Device(int ordinal, bool rounds_to_tf32, int devices)
    : driver_(Driver()),
      rounds_to_tf32_(rounds_to_tf32),
      pinned_(std::make_unique<PinnedPool>(driver_)) {
  RequireGpu(ordinal, devices);
  CheckCall(driver_.DeviceGet(&device_, ordinal), "cuDeviceGet");
  std::array<char, 256> name = {};
  CheckCall(driver_.DeviceGetName(name.data(), static_cast<int>(name.size()), device_),
            "cuDeviceGetName");
  name_ = name.data();
  Uuid uuid = {};
  CheckCall(driver_.DeviceGetUuid(&uuid, device_), "cuDeviceGetUuid");
  std::memcpy(uuid_.data(), uuid.bytes, uuid_.size());
  multiprocessors_ = Attribute(kAttributeMultiprocessorCount);
  compute_capability_ = 10 * Attribute(kAttributeComputeCapabilityMajor) +
                        Attribute(kAttributeComputeCapabilityMinor);
  CheckCall(driver_.PrimaryContextRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  try {
    CheckCall(driver_.ContextSetCurrent(context_), "cuCtxSetCurrent");
    // Before LoadKernels, which also fails with a driver that is too old: this error names the
    // driver.
    matmul_library_ = std::make_unique<MatmulLibrary>(DriverVersion());
    LoadKernels();
    CheckCall(driver_.StreamCreate(&stream_, kStreamNonBlocking), "cuStreamCreate");
    dnn_library_ = std::make_unique<DnnLibrary>(stream_);
  } catch (const DeviceError&) {
    Close();
    throw;
  }
}

Device::~Device() {
  Close();
}

void Device::Close() noexcept {
  driver_.ContextSetCurrent(context_);
  if (stream_ != nullptr) driver_.StreamSynchronize(stream_);
  pinned_.reset();
  dnn_library_.reset();
  matmul_library_.reset();
  if (stream_ != nullptr) driver_.StreamDestroy(stream_);
  if (module_ != nullptr) driver_.ModuleUnload(module_);
  driver_.PrimaryContextRelease(device_);
}

// If a GPU fails, those after it move up by one number. So a GPU of this number may be another
// process's, and fewer GPUs than expected are refused even if the number exists.
void Device::RequireGpu(int ordinal, int devices) const {
  int count = 0;
  const int initialized = driver_.Init(0);
  if (initialized != kErrorNoDevice) {  // the driver's answer where no GPU is visible
    CheckCall(initialized, "cuInit");
    CheckCall(driver_.DeviceGetCount(&count), "cuDeviceGetCount");
  }
  const int given = std::min(devices, MostVisible());
  if (ordinal >= 0 && ordinal < given && count < given) {
    throw DeviceGone(
        fmt::format("back end cuda: found {} GPUs, expected the {} of this pod; one "
                    "has failed, or the container may not use it any more",
                    count, given));
  }
  if (ordinal < 0 || ordinal >= count) {
    throw DeviceMissing(
        fmt::format("back end cuda: found {} GPUs, expected one of number {}", count, ordinal));
  }
}

void Device::LoadKernels() {
  const int result = driver_.ModuleLoadData(&module_, Fatbin());
  if (result == kErrorNoBinaryForGpu) {
    throw DeviceMissing(
        fmt::format("back end cuda: this build has no kernels for compute capability {}.{} of {}",
                    compute_capability_ / 10, compute_capability_ % 10, name_));
  }
  CheckCall(result, "cuModuleLoadData");
}

const DriverApi& Device::driver() const {
  CheckCall(driver_.ContextSetCurrent(context_), "cuCtxSetCurrent");
  return driver_;
}

const DriverApi& Device::driver_for_cleanup() const noexcept {
  driver_.ContextSetCurrent(context_);
  return driver_;
}

void Device::BeginCall() {
  const std::lock_guard lock(mutex_);
  ++calls_;
}

void Device::EndCall(const void* call) {
  DropCall(call);  // before --calls_, so that AwaitCalls waits until it is destroyed
  const std::lock_guard lock(mutex_);
  --calls_;
  calls_ended_.notify_all();
}

void Device::KeepCall(std::shared_ptr<void> call) {
  const std::lock_guard lock(mutex_);
  const void* const key = call.get();
  kept_calls_[key] = std::move(call);
}

void Device::DropCall(const void* call) {
  std::shared_ptr<void> dropped;  // destroyed without the lock, which its destructor may take
  const std::lock_guard lock(mutex_);
  const auto found = kept_calls_.find(call);
  if (found == kept_calls_.end()) return;
  dropped = std::move(found->second);
  kept_calls_.erase(found);
}

void Device::AwaitCalls() const {
  std::unique_lock lock(mutex_);
  calls_ended_.wait(lock, [this] { return calls_ == 0; });
}

const MatmulLibrary& Device::matmul_library() const {
  driver();
  return *matmul_library_;
}

const DnnLibrary& Device::dnn_library() const {
  driver();
  return *dnn_library_;
}

int Device::DriverVersion() const {
  int version = 0;
  CheckCall(driver_.DriverGetVersion(&version), "cuDriverGetVersion");
  return version;
}

int Device::Attribute(int attribute) const {
  int value = 0;
  CheckCall(driver_.DeviceGetAttribute(&value, attribute, device_), "cuDeviceGetAttribute");
  return value;
}

void Device::CheckCall(int result, const char* call) const {
  if (result == kSuccess) return;
  const char* text = nullptr;
  if (driver_.GetErrorString(result, &text) != kSuccess || text == nullptr) text = "unknown error";
  const std::string message =
      fmt::format("back end cuda: {} failed with {}: {}", call, result, text);
  if (result == kErrorOutOfMemory) throw OutOfMemory(message);
  throw DeviceError(message);
}

void Device::Check(int result, const char* call) const {
  CheckCall(result, call);
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw DeviceError(failure_);
}

void Device::Fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = reason;
}

void Device::Synchronize() const {
  Check(driver().StreamSynchronize(stream_), "cuStreamSynchronize");
}

void Device::RefuseInRecording(const char* what) const {
  if (recording_thread_ != std::this_thread::get_id()) return;
  throw DeviceError(fmt::format("back end cuda: {} cannot be recorded", what));
}

Grid Device::GridFor(std::int64_t size) const {
  constexpr std::int64_t kBlocksPerMultiprocessor = 8;
  const std::int64_t needed = (size + kThreads - 1) / kThreads;
  const std::int64_t most = kBlocksPerMultiprocessor * multiprocessors_;
  return {.blocks_x = static_cast<unsigned>(std::clamp<std::int64_t>(needed, 1, most)),
          .threads_x = kThreads};
}

unsigned Device::ThreadsFor(std::int64_t size) {
  constexpr std::int64_t kWarp = 32;
  return std::bit_ceil(static_cast<unsigned>(std::clamp<std::int64_t>(size, kWarp, kThreads)));
}

FunctionHandle Device::Find(std::string_view name) const {
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second;
  FunctionHandle function = nullptr;
  const int result = driver_.ModuleGetFunction(&function, module_, name.data());
  if (result == kErrorNotFound) {
    throw DeviceError(fmt::format("back end cuda: this build has no kernel {}", name));
  }
  Check(result, "cuModuleGetFunction");
  return kernels_[name] = function;
}

void Device::LaunchKernel(const char* name, const Grid& grid, void** arguments) const {
  Check(driver().LaunchKernel(Find(name), grid.blocks_x, grid.blocks_y, 1, grid.threads_x,
                              grid.threads_y, 1, 0, stream_, arguments, nullptr),
        name);
}

}  // namespace lockstep::train::cuda
