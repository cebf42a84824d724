// Streams and events of a GPU, as trainer/core/stream.h wants them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/stream.h"

namespace lockstep::train::cuda {

// Requires: the device outlives the stream and its events. Thread-safe.
class CudaStream final : public Stream {
 public:
  // The stream of the device's ops.
  explicit CudaStream(Device& device);
  // A new one beside it.
  static std::unique_ptr<CudaStream> Make(Device& device);
  // A stream made by Make waits for its work.
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  std::shared_ptr<Event> Record() override;
  void Wait(std::shared_ptr<Event> event) override;
  // Through page-locked memory: from and to other memory of the host, the driver would copy during
  // the call, before what is queued ahead has run.
  void Download(const void* device, void* host, std::size_t bytes) override;
  void Upload(const void* host, void* device, std::size_t bytes) override;
  // Upload that has read `host` when it returns.
  void UploadNow(const void* host, void* device, std::size_t bytes);
  // What `function` throws fails the device (Device::Fail).
  void Call(std::function<void()> function) override;
  NativeStream Native() override;

 private:
  PinnedPool::Block TakePinned(std::size_t bytes) const;
  // Queues a copy of the block's bytes to the device, after which the pool has it again.
  void CopyAndGive(const PinnedPool::Block& block, DeviceAddress to, std::size_t bytes) const;
  CudaStream(Device& device, StreamHandle stream, bool is_owner)
      : device_(device), stream_(stream), is_owner_(is_owner) {}

  Device& device_;
  const StreamHandle stream_;
  const bool is_owner_;
};

}  // namespace lockstep::train::cuda
