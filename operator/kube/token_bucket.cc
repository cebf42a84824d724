#include "operator/kube/token_bucket.h"

#include <algorithm>
#include <chrono>

namespace lockstep::kube {
namespace {

Duration IntervalOf(double rate) {
  if (rate <= 0) return Duration::zero();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1.0 / rate));
}

}  // namespace

TokenBucket::TokenBucket(double rate, int burst)
    : interval_(IntervalOf(rate)), saved_(interval_ * (std::max(burst, 1) - 1)) {}

SteadyTime TokenBucket::Take(SteadyTime now, Duration apart) {
  if (interval_ == Duration::zero()) return now;
  const SteadyTime turn = std::max(next_, now - saved_);
  next_ = turn + std::max(interval_, apart);
  return std::max(turn, now);
}

}  // namespace lockstep::kube
