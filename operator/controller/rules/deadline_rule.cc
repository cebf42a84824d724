#include "operator/controller/rules/deadline_rule.h"

#include <fmt/format.h>

#include "operator/controller/rules/status.h"

namespace lockstep::controller {

std::optional<Duration> UntilDeadline(const Observed& observed) {
  const auto& seconds = observed.job.spec.run_policy.active_deadline_seconds;
  if (!seconds || observed.job.spec.suspend) return std::nullopt;
  return SecondsAfter(StartTime(observed), *seconds) - observed.now;
}

std::optional<Plan> PlanDeadline(const Observed& observed) {
  const std::optional<Duration> left = UntilDeadline(observed);
  if (!left || *left > Duration::zero()) return std::nullopt;
  return FailedPlan(observed, api::FailureReason::kDeadlineExceeded,
                    fmt::format("the job was active for longer than activeDeadlineSeconds ({})",
                                *observed.job.spec.run_policy.active_deadline_seconds));
}

}  // namespace lockstep::controller
