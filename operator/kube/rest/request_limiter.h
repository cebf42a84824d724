// Limits a client's request rate and its concurrent requests. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace lockstep::kube {

// Grants `rate` tokens per second, and up to `burst` at once after a pause. Not thread-safe.
class TokenBucket {
 public:
  // `rate` 0: no limit. A burst below 1 counts as 1.
  TokenBucket(double rate, int burst);
  // Reserves the next token; returns when it may be used. Tokens are granted in order; the next is
  // due at least `apart` after this one was.
  SteadyTime Take(SteadyTime now, Duration apart = Duration::zero());

 private:
  const Duration interval_;  // between tokens; zero: no limit
  const Duration saved_;     // how far a pause can accumulate tokens
  SteadyTime next_{};
};

class RequestLimiter {
 public:
  // `at_once` values below 1 count as 1.
  RequestLimiter(double qps, int burst, int at_once);

  // Blocks until the rate limit grants a token.
  void WaitForTurn();

  // Holds one of the concurrent request slots; the constructor blocks until one is free.
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
