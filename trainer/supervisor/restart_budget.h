// How often a pod's crashed replicas are started again in place. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace lockstep::train {

struct RestartBudgetOptions {
  int restarts = 10;                               // without a step of progress between them
  Duration first_delay = std::chrono::seconds(1);  // of the second restart; doubles each time
  Duration longest_delay = std::chrono::seconds(30);
};

class RestartBudget {
 public:
  explicit RestartBudget(const RestartBudgetOptions& options) : options_(options) {}

  // How long to wait before starting again: nothing the first time. Absent: the budget is spent.
  std::optional<Duration> Charge();
  // A step beyond all earlier ones makes the budget whole again. A replica that goes back to a
  // checkpoint and dies at the same place every time thus runs out of it.
  void Progress(std::int64_t step);
  int used() const { return used_; }

 private:
  const RestartBudgetOptions options_;
  int used_ = 0;
  std::int64_t furthest_step_ = 0;
};

}  // namespace lockstep::train
