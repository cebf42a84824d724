// A stream of the simulated device: a thread that runs one piece of work after another.
// ThreadSanitizer sees that two streams are not ordered unless an event orders them.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "base/serial_thread.h"

namespace cuda_sim {

// A point in a stream's work. Thread-safe.
class Point {
 public:
  void Reach();
  void Wait();
  bool IsReached();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
};

// Its destructor waits for all work. Thread-safe.
class SimStream {
 public:
  void Enqueue(std::function<void()> work) { thread_.Enqueue(std::move(work)); }
  // A point after all work that has been queued so far.
  std::shared_ptr<Point> Mark();
  void Synchronize() { Mark()->Wait(); }

 private:
  lockstep::SerialThread thread_;
};

}  // namespace cuda_sim
