// How often something may be done.
#pragma once

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

}  // namespace lockstep::kube
