// Turns SIGTERM and SIGINT into a stop token.
#pragma once

#include <stop_token>

#include "base/clock.h"

namespace lockstep::server {

// Create before any other thread, so that all threads inherit the blocked signals, and only once
// per process. Also ignores SIGPIPE.
class StopSignals {
 public:
  // From the first signal on, holders of the token have `grace` to finish. After that, or at a
  // second signal, the process exits with 1 and the next leader waits for the lease to expire.
  explicit StopSignals(Duration grace);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
};

}  // namespace lockstep::server
