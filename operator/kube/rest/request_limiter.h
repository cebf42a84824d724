// How many requests a client sends: so many a second, and so many at a time. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace lockstep::kube {

// Grants `rate` turns a second, and up to `burst` at once after a rest. Pure.
class TokenBucket {
 public:
  // `rate` 0: every turn at once. A burst below 1 counts as 1.
  TokenBucket(double rate, int burst);
  // When the next turn is; it is taken. Turns are handed out in order. The one after it comes at
  // least `apart` later.
  SteadyTime Take(SteadyTime now, Duration apart = Duration::zero());

 private:
  const Duration interval_;  // between turns; zero: no limit
  const Duration saved_;     // what a rest can save up
  SteadyTime next_{};
};

class RequestLimiter {
 public:
  // `at_once` is at least 1.
  RequestLimiter(double qps, int burst, int at_once);

  // Waits for a turn of the rate.
  void WaitForTurn();

  // One of the requests at a time, from construction to destruction.
  class Slot {
   public:
    explicit Slot(RequestLimiter& limiter);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    RequestLimiter& limiter_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  TokenBucket bucket_;  // guarded by mutex_
  int free_;            // guarded by mutex_
};

}  // namespace lockstep::kube
