#include "operator/kube/backoff.h"

#include <algorithm>
#include <cmath>

namespace lockstep::kube {

Duration BackoffDelay(const BackoffPolicy& policy, int failures, double random) {
  const auto limit = static_cast<double>(policy.limit.count());
  // pow may overflow to infinity; min caps it.
  const double grown = static_cast<double>(policy.initial.count()) *
                       std::pow(policy.factor, std::max(failures, 1) - 1);
  const double delay = std::min(grown, limit);
  return Duration(static_cast<Duration::rep>(delay * (1.0 + policy.jitter * random)));
}

}  // namespace lockstep::kube
