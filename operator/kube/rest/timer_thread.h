// Calls functions at set times on its own thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace lockstep::kube {

// Thread-safe. Callbacks must be short. Times are std::chrono::steady_clock's.
class TimerThread {
 public:
  using Id = std::pair<SteadyTime, std::uint64_t>;

  TimerThread();
  ~TimerThread();  // drops pending callbacks
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  Id Set(SteadyTime when, std::function<void()> ring);
  // Does not wait for a running callback.
  void Cancel(const Id& id);

 private:
  void Run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any earlier_;
  std::map<Id, std::function<void()>> pending_;  // guarded by mutex_
  std::uint64_t next_ = 0;                       // guarded by mutex_
  std::jthread thread_;
};

}  // namespace lockstep::kube
