#include "operator/controller/status_throttle.h"

#include <algorithm>

namespace lockstep::controller {
namespace {

// The longest interval between deferrable status writes, however slow the API server is.
constexpr Duration kFarthestTurns = std::chrono::milliseconds(100);
// How much farther apart first sights are than the others.
constexpr int kFirstSightsApart = 4;

}  // namespace

StatusThrottle::StatusThrottle(const Settings& settings)
    : first_turns_(settings.status_rate, settings.status_burst),
      report_turns_(settings.status_rate, settings.status_burst),
      count_turns_(settings.status_rate, settings.status_burst) {}

Duration StatusThrottle::Wait(const kube::Key& job, const Plan& plan, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  const Duration apart = std::min(write_time_, kFarthestTurns);
  if (plan.only_counts) return count_turns_.Wait(job, now, apart);
  if (plan.only_first_sight) return first_turns_.Wait(job, now, kFirstSightsApart * apart);
  return report_turns_.Wait(job, now, apart);
}

void StatusThrottle::Forget(const kube::Key& job) {
  const std::lock_guard lock(mutex_);
  first_turns_.Drop(job);
  report_turns_.Drop(job);
  count_turns_.Drop(job);
}

void StatusThrottle::Record(Duration took) {
  const std::lock_guard lock(mutex_);
  write_time_ += (took - write_time_) / 8;  // averages over about eight writes
}

}  // namespace lockstep::controller
