#include "trainer/supervisor/restart_budget.h"

#include <algorithm>

namespace lockstep::train {

std::optional<Duration> RestartBudget::Charge() {
  if (used_ >= options_.restarts) return std::nullopt;
  Duration delay{0};
  for (int i = 0; i < used_; ++i) {
    delay = i == 0 ? options_.first_delay : std::min(delay * 2, options_.longest_delay);
  }
  ++used_;
  return delay;
}

void RestartBudget::Refund() {
  if (used_ > 0) --used_;
}

void RestartBudget::Progress(std::int64_t step) {
  if (step <= furthest_step_) return;
  furthest_step_ = step;
  used_ = 0;
}

}  // namespace lockstep::train
