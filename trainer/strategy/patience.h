// How long a rank waits for live peers; see CollectiveOptions.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"

namespace lockstep::train {

inline constexpr int kStepsPerTimeout = 10;

// Not thread-safe.
class Patience {
 public:
  explicit Patience(Duration least) : least_(least) {}

  Duration timeout() const { return std::max(least_, kStepsPerTimeout * longest_); }
  // A group is formed, whose waits end after `timeout`.
  void Begin(Duration timeout) {
    in_force_ = timeout;
    last_ = std::chrono::steady_clock::now();
  }
  // Records that a collective has ended. Returns its status.
  absl::Status RecordEnd(absl::Status status) {
    const SteadyTime now = std::chrono::steady_clock::now();
    const Duration since = now - std::exchange(last_, now);
    if (status.ok()) {
      longest_ = std::max(since, longest_ - longest_ / 128);
    } else if (since + std::min(longest_, in_force_ / kStepsPerTimeout) >= in_force_) {
      // A device may have begun to wait up to a step before the host noted the step before.
      least_ = std::max(least_, 2 * in_force_);
    }
    return status;
  }

 private:
  Duration least_;
  Duration longest_{};   // recent time between two collectives; decays
  Duration in_force_{};  // this generation's timeout
  SteadyTime last_;
};

}  // namespace lockstep::train
