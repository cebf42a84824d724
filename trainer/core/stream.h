// Ordered queues of a device's work, and how they wait for each other.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::train {

// A point in a stream's work. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  // Blocks the calling thread until the work before the event is done. Throws if the device has
  // failed.
  virtual void Wait() = 0;
};

// What a GPU's stream is to the libraries of the GPU's vendor.
struct NativeStream {
  void* handle = nullptr;           // a CUstream; null: the stream is no GPU's
  std::array<std::byte, 16> gpu{};  // the GPU's UUID: no two GPUs of the world have the same
};

// Calls return before the work is done, unless the back end says otherwise (Backend::IsHost); the
// work runs in the order of the calls. Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;
  // Returns an event after all work that has been queued so far.
  virtual std::shared_ptr<Event> Record() = 0;
  // Work that is queued later starts after `event`, of any stream of the same back end.
  virtual void Wait(std::shared_ptr<Event> event) = 0;
  // Copies between device and host memory. The host's memory must stay valid, and is written or
  // read, when the work runs.
  virtual void Download(const void* device, void* host, std::size_t bytes) = 0;
  virtual void Upload(const void* host, void* device, std::size_t bytes) = 0;
  // Calls `function` on a thread of the back end. It must not use the back end.
  virtual void Call(std::function<void()> function) = 0;
  // For libraries that queue work by themselves. Also makes the stream's GPU the one that the
  // calling thread uses.
  virtual NativeStream Native() { return {}; }
};

}  // namespace lockstep::train
