// Exponential backoff with jitter. Pure.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace lockstep::kube {

struct BackoffPolicy {
  Duration initial = std::chrono::milliseconds(20);
  Duration limit = std::chrono::seconds(30);
  double factor = 2.0;
  double jitter = 0.2;  // each delay is lengthened by up to this fraction
  bool operator==(const BackoffPolicy&) const = default;
};

// Returns the delay after `failures` (>= 1) consecutive failures: at most limit * (1 + jitter).
// `random` is in [0, 1).
Duration BackoffDelay(const BackoffPolicy& policy, int failures, double random);

}  // namespace lockstep::kube
