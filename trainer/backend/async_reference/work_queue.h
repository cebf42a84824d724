// A stream as a thread that runs one piece of work after another.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "trainer/backend/async_reference/device_memory.h"
#include "trainer/core/stream.h"

namespace lockstep::train::async_reference {

// After work has thrown, later work is not run, and whoever waits gets the exception as a
// DeviceError. Thread-safe.
class WorkQueue final : public Stream {
 public:
  // Requires: `memory` outlives the queue.
  explicit WorkQueue(const DeviceMemory& memory);
  // Waits for all work.
  ~WorkQueue() override;
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Enqueue(std::function<void()> work);
  void Synchronize() { Record()->Wait(); }

  std::shared_ptr<Event> Record() override;
  void Wait(std::shared_ptr<Event> event) override;
  void Download(const void* device, void* host, std::size_t bytes) override;
  void Upload(const void* host, void* device, std::size_t bytes) override;
  void Call(std::function<void()> function) override { Enqueue(std::move(function)); }

 private:
  void Run();

  const DeviceMemory& memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::exception_ptr failure_;  // used by the thread alone
  std::thread thread_;          // last: uses all of the above
};

}  // namespace lockstep::train::async_reference
