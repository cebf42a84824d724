// A stream of the simulated device: a thread that runs one piece of work after another.
// ThreadSanitizer sees that two streams are not ordered unless an event orders them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace cuda_sim {

// A point in a stream's work. Thread-safe.
class Point {
 public:
  void Reach();
  void Wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
};

// Thread-safe.
class SimStream {
 public:
  SimStream();
  // Waits for all work.
  ~SimStream();
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  void Enqueue(std::function<void()> work);
  // A point after all work that has been queued so far.
  std::shared_ptr<Point> Mark();
  void Synchronize() { Mark()->Wait(); }

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace cuda_sim
