#include "operator/controller/rejected_rule.h"

#include "operator/controller/status.h"

namespace lockstep::controller {

std::optional<Plan> PlanRejected(const Observed& observed) {
  if (!observed.create_fault || !observed.create_fault->permanent) return std::nullopt;
  return TerminalPlan(observed, kFailed, "PodRejected", observed.create_fault->message);
}

}  // namespace lockstep::controller
