#include "trainer/backend/cuda/device/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.h"
#include "trainer/backend/out_of_memory.h"

namespace lockstep::train::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(const Device& device) : device_(device) {
    device_.CheckCall(device_.driver().EventCreate(&event_, kEventDisableTiming), "cuEventCreate");
  }
  ~CudaEvent() override { device_.driver_for_cleanup().EventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void Wait() override {
    const int result = device_.driver().EventSynchronize(event_);
    if (result != kSuccess) device_.AwaitCalls();
    device_.Check(result, "cuEventSynchronize");
  }
  EventHandle handle() const { return event_; }

 private:
  const Device& device_;
  EventHandle event_ = nullptr;
};

// A function on its way through a stream.
struct HostCall {
  Device& device;
  std::function<void()> function;
};

void RunHostCall(void* argument) {
  auto* const call = static_cast<HostCall*>(argument);
  Device& device = call->device;
  device.BeginCall();
  try {
    call->function();
  } catch (const std::exception& error) {
    device.Fail(fmt::format("back end cuda: a call from a stream failed: {}", error.what()));
  }
  device.EndCall(call);
}

}  // namespace

CudaStream::CudaStream(Device& device) : CudaStream(device, device.stream(), false) {}

std::unique_ptr<CudaStream> CudaStream::Make(Device& device) {
  StreamHandle stream = nullptr;
  device.Check(device.driver().StreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
  return std::unique_ptr<CudaStream>(new CudaStream(device, stream, true));
}

CudaStream::~CudaStream() {
  if (!is_owner_) return;
  const DriverApi& driver = device_.driver_for_cleanup();
  driver.StreamSynchronize(stream_);
  device_.AwaitCalls();
  driver.StreamDestroy(stream_);
}

std::shared_ptr<Event> CudaStream::Record() {
  auto event = std::make_shared<CudaEvent>(device_);
  const int result = device_.driver().EventRecord(event->handle(), stream_);
  // The caller cannot wait for the stream, but may free what a running call uses.
  if (result != kSuccess) device_.AwaitCalls();
  device_.CheckCall(result, "cuEventRecord");
  return event;
}

void CudaStream::Wait(std::shared_ptr<Event> event) {
  const auto* recorded = dynamic_cast<const CudaEvent*>(event.get());
  LOCKSTEP_CHECK(recorded != nullptr, "back end cuda: the event is another back end's");
  device_.Check(device_.driver().StreamWaitEvent(stream_, recorded->handle(), 0),
                "cuStreamWaitEvent");
}

PinnedPool::Block CudaStream::TakePinned(std::size_t bytes) const {
  device_.RefuseInRecording("a copy from or to the host");
  device_.driver();
  PinnedPool::Block block;
  const int result = device_.pinned().Take(bytes, block);
  if (result == kErrorOutOfMemory) {
    throw OutOfMemory(
        fmt::format("back end cuda: the host has no {} bytes to lock for a copy", bytes));
  }
  device_.CheckCall(result, "cuMemHostAlloc");
  return block;
}

void CudaStream::Download(const void* device, void* host, std::size_t bytes) {
  if (bytes == 0) return;
  const PinnedPool::Block block = TakePinned(bytes);
  device_.Check(device_.driver().MemcpyDtoHAsync(block.data, AddressOf(device), bytes, stream_),
                "cuMemcpyDtoHAsync");
  Call([block, host, bytes, &pool = device_.pinned()] {
    std::memcpy(host, block.data, bytes);
    pool.Give(block);
  });
}

void CudaStream::Upload(const void* host, void* device, std::size_t bytes) {
  if (bytes == 0) return;
  const PinnedPool::Block block = TakePinned(bytes);
  Call([block, host, bytes] { std::memcpy(block.data, host, bytes); });
  CopyAndGive(block, AddressOf(device), bytes);
}

void CudaStream::UploadNow(const void* host, void* device, std::size_t bytes) {
  constexpr std::size_t kMostPinned = std::size_t{64} << 20;
  for (std::size_t at = 0; at < bytes; at += kMostPinned) {
    const std::size_t size = std::min(kMostPinned, bytes - at);
    const PinnedPool::Block block = TakePinned(size);
    std::memcpy(block.data, static_cast<const std::byte*>(host) + at, size);
    CopyAndGive(block, AddressOf(device) + at, size);
  }
}

void CudaStream::CopyAndGive(const PinnedPool::Block& block, DeviceAddress to,
                             std::size_t bytes) const {
  device_.Check(device_.driver().MemcpyHtoDAsync(to, block.data, bytes, stream_),
                "cuMemcpyHtoDAsync");
  device_.Check(device_.pinned().GiveAfter(block, stream_), "cuEventRecord");
}

NativeStream CudaStream::Native() {
  device_.driver();
  return {.handle = stream_, .gpu = device_.uuid()};
}

void CudaStream::Call(std::function<void()> function) {
  device_.RefuseInRecording("a call to the host");
  const DriverApi& driver = device_.driver();
  const auto call = std::make_shared<HostCall>(device_, std::move(function));
  device_.KeepCall(call);
  const int result = driver.LaunchHostFunc(stream_, &RunHostCall, call.get());
  if (result != kSuccess) device_.DropCall(call.get());
  device_.Check(result, "cuLaunchHostFunc");
}

}  // namespace lockstep::train::cuda
