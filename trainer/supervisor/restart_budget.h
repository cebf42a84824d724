// Limits how often something is tried again without progress: a pod's crashed replicas, or groups
// that fail (RunGenerations). Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace lockstep::train {

struct RestartBudgetOptions {
  int restarts = 10;                               // without a step of progress in between
  Duration first_delay = std::chrono::seconds(1);  // before the second restart; then doubles
  Duration longest_delay = std::chrono::seconds(30);
};

// Not thread-safe.
class RestartBudget {
 public:
  explicit RestartBudget(const RestartBudgetOptions& options) : options_(options) {}

  // Takes one restart and returns the delay before it, zero for the first. Returns nullopt if the
  // budget is spent.
  std::optional<Duration> Charge();
  // Gives back the last restart that was taken.
  void Refund();
  // Restores the full budget if `step` is beyond all earlier ones. So a replica that restores a
  // checkpoint and always dies at the same step exhausts it.
  void Progress(std::int64_t step);
  int used() const { return used_; }

 private:
  const RestartBudgetOptions options_;
  int used_ = 0;
  std::int64_t furthest_step_ = 0;
};

}  // namespace lockstep::train
