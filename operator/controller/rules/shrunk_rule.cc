#include "operator/controller/rules/shrunk_rule.h"

#include <string>

#include "operator/controller/rules/attempt.h"
#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/status.h"

namespace lockstep::controller {

std::optional<Plan> PlanShrunk(const Observed& observed) {
  if (IsTrue(observed.job.status, kSuspended) || !IsOverByEditAlone(observed)) return std::nullopt;
  const char* reason = "Rescaled";
  const std::string message =
      "an edit has removed the replicas that still trained, and those that are left had finished; "
      "all replicas restart, which does not count against backoffLimit";
  Plan plan;
  plan.status = BaseStatus(observed);
  plan.status.next_retry_time.reset();
  CloseAttempt(observed, plan.status);
  ForgetAllCompleted(plan.status);
  AnnounceNextAttempt(observed, reason, message, plan.status);
  plan.events.push_back({PlannedEvent::Type::kNormal, reason, message});
  return plan;
}

}  // namespace lockstep::controller
