// A thread that does the work of those who wait for it.
#pragma once

#include <functional>
#include <mutex>
#include <semaphore>
#include <thread>

namespace lockstep::train {

// OpenMP gives every thread that uses it a team of its own, which lives as long as that thread. So
// work that comes from many threads, and uses all cores each time, is best done by one.
class UpdateThread {
 public:
  UpdateThread() : thread_([this] { Serve(); }) {}
  // Requires: no call of Run is under way.
  ~UpdateThread() {
    work_ = nullptr;
    begun_.release();
  }
  UpdateThread(const UpdateThread&) = delete;
  UpdateThread& operator=(const UpdateThread&) = delete;

  // Calls `work` on the thread and returns when it has. Thread-safe: callers take turns.
  void Run(const std::function<void()>& work) {
    const std::lock_guard turn(turn_);
    work_ = &work;
    begun_.release();
    done_.acquire();
  }

 private:
  void Serve() {
    for (begun_.acquire(); work_ != nullptr; begun_.acquire()) {
      (*work_)();
      done_.release();
    }
  }

  std::mutex turn_;
  const std::function<void()>* work_ = nullptr;  // handed over by the semaphores
  std::binary_semaphore begun_{0}, done_{0};
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
