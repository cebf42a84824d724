#include "trainer/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::train {

double LearningRateAt(const api::LearningRateScheduleSpec& schedule, double base, std::int64_t step,
                      std::int64_t total_steps) {
  const std::int64_t warmup = schedule.warmup_steps;
  if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule.type == api::ScheduleType::kConstant) return base;
  // The first update after the warm-up uses `base`, the last one the final rate.
  const double span = static_cast<double>(std::max<std::int64_t>(1, total_steps - 1 - warmup));
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / span);
  const double cosine = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return base * (schedule.final_fraction + (1 - schedule.final_fraction) * cosine);
}

}  // namespace lockstep::train
