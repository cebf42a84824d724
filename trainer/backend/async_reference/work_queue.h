// A stream as a thread that runs one piece of work after another.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "base/serial_thread.h"
#include "trainer/backend/async_reference/device_memory.h"
#include "trainer/core/stream.h"

namespace lockstep::train::async_reference {

// After work has thrown, later work is not run, and whoever waits gets the exception as a
// DeviceError. The destructor waits for all work. Thread-safe.
class WorkQueue final : public Stream {
 public:
  // Requires: `memory` outlives the queue.
  explicit WorkQueue(const DeviceMemory& memory) : memory_(memory) {}

  void Enqueue(std::function<void()> work);
  void Synchronize() { Record()->Wait(); }

  std::shared_ptr<Event> Record() override;
  void Wait(std::shared_ptr<Event> event) override;
  void Download(const void* device, void* host, std::size_t bytes) override;
  void Upload(const void* host, void* device, std::size_t bytes) override;
  void Call(std::function<void()> function) override { Enqueue(std::move(function)); }

 private:
  const DeviceMemory& memory_;
  std::exception_ptr failure_;  // used only by the thread
  SerialThread thread_;         // last: uses the above
};

}  // namespace lockstep::train::async_reference
