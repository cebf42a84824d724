// How long to wait after failures. Pure.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace lockstep::kube {

struct BackoffPolicy {
  Duration initial = std::chrono::milliseconds(20);
  Duration limit = std::chrono::seconds(30);
  double factor = 2.0;
  double jitter = 0.2;  // a delay is made longer by up to this fraction
  bool operator==(const BackoffPolicy&) const = default;
};

// The delay after `failures` in a row (>= 1); `random` is in [0, 1). Never above limit * (1 +
// jitter).
Duration BackoffDelay(const BackoffPolicy& policy, int failures, double random);

}  // namespace lockstep::kube
