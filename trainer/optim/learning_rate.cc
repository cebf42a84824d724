#include "trainer/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace lockstep::train {
namespace {

// From 1 at the first update after the warm-up to final_fraction at the last one, along
// `curve`: 1 at 0, 0 at 1.
double Fall(const api::LearningRateScheduleSpec& schedule, double curve) {
  return schedule.final_fraction + (1 - schedule.final_fraction) * curve;
}

// `done`: updates since the warm-up.
double Decays(const api::LearningRateScheduleSpec& schedule, std::int64_t done) {
  LOCKSTEP_CHECK(schedule.every_steps && *schedule.every_steps > 0,
                 "learning rate: the schedule lacks everySteps");
  const std::int64_t every = *schedule.every_steps;
  if (schedule.type == api::ScheduleType::kStep) {
    const std::int64_t whole = done / every;
    return static_cast<double>(whole);
  }
  return static_cast<double>(done) / static_cast<double>(every);
}

// From `begin` to `end` along half a cosine; `progress`: 0 to 1.
double Anneal(double begin, double end, double progress) {
  return end + (begin - end) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

// As a share of the highest rate.
double OneCycle(std::int64_t step, std::int64_t total_steps) {
  constexpr double kRise = 0.3, kFirst = 1.0 / 25, kLast = kFirst / 1e4;
  const double at = static_cast<double>(std::min(step, total_steps - 1));
  const double total = static_cast<double>(total_steps);
  const double top = kRise * total - 1;  // not a whole number, as in PyTorch
  if (at <= top) return Anneal(kFirst, 1, at / top);
  return Anneal(1, kLast, (at - top) / (total - 1 - top));
}

}  // namespace

double LearningRateAt(const api::LearningRateScheduleSpec& schedule, double base, std::int64_t step,
                      std::int64_t total_steps) {
  const std::int64_t warmup = schedule.warmup_steps;
  if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const std::int64_t done = step - warmup;
  const double span = static_cast<double>(std::max<std::int64_t>(1, total_steps - 1 - warmup));
  const double progress = std::min(1.0, static_cast<double>(done) / span);
  switch (schedule.type) {
    case api::ScheduleType::kConstant:
      break;
    case api::ScheduleType::kCosine:
      return base * Fall(schedule, (1 + std::cos(std::numbers::pi * progress)) / 2);
    case api::ScheduleType::kPolynomial:
      return base * Fall(schedule, std::pow(1 - progress, schedule.power));
    case api::ScheduleType::kStep:
    case api::ScheduleType::kExponential:
      return base * std::pow(schedule.factor, Decays(schedule, done));
    case api::ScheduleType::kOneCycle:
      return base * OneCycle(step, total_steps);
  }
  return base;
}

}  // namespace lockstep::train
