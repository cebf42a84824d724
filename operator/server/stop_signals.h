// SIGTERM and SIGINT as a stop token.
#pragma once

#include <stop_token>
#include <thread>

#include "base/clock.h"

namespace lockstep::server {

// Made before any other thread, so that all of them inherit the blocked signals. One a process.
class StopSignals {
 public:
  // From the first signal on, whoever holds the token has `grace` to end; then, or at a second
  // signal, the process exits with 1: the lease is then waited out by whoever leads next.
  explicit StopSignals(Duration grace);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
};

}  // namespace lockstep::server
