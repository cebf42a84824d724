// Bounds what callers cost that have not proved yet that they know the job's token.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/clock.h"

namespace lockstep::train {

struct IntroductionLimits {
  std::size_t at_once = 64;  // each holds a thread
  // Of a caller that answers its challenge. A worker on a loaded host may need a second.
  Duration patience = std::chrono::seconds(5);
};

// Thread-safe.
class Introductions {
 public:
  explicit Introductions(IntroductionLimits limits);

  // One caller's introduction: from its stream's beginning to its acceptance or refusal.
  class Pending {
   public:
    // Requires: both outlive this.
    Pending(Introductions& all, grpc::ServerContext& caller);
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // False: there are as many already as may be. The caller may come again.
    bool may_begin() const { return may_begin_; }

   private:
    Introductions& all_;
    grpc::ServerContext& caller_;
    bool may_begin_ = false;
  };

  // Counts a caller that does not know the token. Logs the count, at most every 10 s.
  void CountRefusal();

 private:
  void CancelLate(const std::stop_token& stop);

  const IntroductionLimits limits_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable_any changed_;
  std::map<grpc::ServerContext*, SteadyTime> deadlines_;
  std::int64_t refusals_ = 0;
  SteadyTime next_log_{};
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
