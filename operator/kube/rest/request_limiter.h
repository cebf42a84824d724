// Limits a client's request rate, its concurrent requests and the memory that they take.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "operator/kube/token_bucket.h"

namespace lockstep::kube {

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

// Bytes that are lent in the order in which they are asked for, so that a large share waits no
// longer than the small ones before it.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t bytes) : all_(bytes), free_(bytes) {}

  // Holds some of the bytes, at most all of them; the constructor blocks until they are free.
  class Share {
   public:
    // At `deadline` the share gives up: it holds nothing, and whoever asked later goes on.
    Share(ByteBudget& budget, std::size_t bytes, SteadyTime deadline = SteadyTime::max());
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // False if the deadline came first.
    bool is_held() const { return is_held_; }

   private:
    ByteBudget& budget_;
    const std::size_t bytes_;
    bool is_held_;
  };

 private:
  const std::size_t all_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::size_t free_;
  std::uint64_t next_ticket_ = 0;
  std::set<std::uint64_t> waiting_;  // tickets, of which the first is served next
};

}  // namespace lockstep::kube
