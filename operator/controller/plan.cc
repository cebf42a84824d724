#include "operator/controller/plan.h"

#include "operator/controller/deadline_rule.h"
#include "operator/controller/finish_rule.h"
#include "operator/controller/kueue_rule.h"
#include "operator/controller/rejected_rule.h"
#include "operator/controller/rescale_rule.h"
#include "operator/controller/restart_rule.h"
#include "operator/controller/running_rule.h"
#include "operator/controller/status.h"
#include "operator/controller/suspend_rule.h"

namespace lockstep::controller {
namespace {

// spec.managedBy of jobs that are ours, beside an empty one.
constexpr char kManagedBy[] = "training.lockstep.dev/operator";

// Somebody else's job, or one on its way out: hands off.
std::optional<Plan> PlanNothing(const Observed& observed) {
  const std::string& managed_by = observed.job.spec.managed_by;
  const bool foreign = !managed_by.empty() && managed_by != kManagedBy;
  if (!foreign && !observed.job.metadata.deletion_time) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  return plan;
}

std::optional<Plan> PlanInvalid(const Observed& observed) {
  if (!observed.invalid) return std::nullopt;
  return TerminalPlan(observed, kFailed, "InvalidSpec", *observed.invalid);
}

// Counts and progress change all the time; what they say may be a little old.
void HoldBackCounts(const Observed& observed, Plan& plan) {
  if (!observed.last_status_write || !plan.status_can_wait) return;
  const Duration left =
      *observed.last_status_write + observed.settings.status_interval - observed.now;
  if (left > Duration::zero()) PutOffStatus(observed, left, plan);
}

// True if there is nothing to tell of a new job but that it was seen.
bool IsPlainFirstSight(const Plan& plan, const api::TrainingJobStatus& written) {
  if (FindCondition(written, kCreated) != nullptr) return false;
  if (plan.status.state != kPending || !plan.events.empty()) return false;
  api::TrainingJobStatus seen = written;
  seen.state = plan.status.state;
  seen.conditions = plan.status.conditions;
  seen.observed_generation = plan.status.observed_generation;
  seen.selector = plan.status.selector;
  seen.start_time = plan.status.start_time;
  return DiffersOnlyInCounts(plan.status, seen);
}

bool CanWait(const Plan& plan, const api::TrainingJobStatus& written) {
  if (plan.status == written) return false;
  return DiffersOnlyInCounts(plan.status, written) || IsPlainFirstSight(plan, written);
}

Plan Finalized(const Observed& observed, Plan plan) {
  if (IsTerminal(observed.job.status)) return plan;
  // A rule that has nothing to say yet of a new job must not write a status for its state alone.
  const bool is_new = observed.job.status.state.empty() && plan.status == observed.job.status;
  if (!is_new) plan.status.state = StateOf(plan.status);
  plan.status_can_wait = CanWait(plan, observed.job.status);
  HoldBackCounts(observed, plan);
  if (IsTerminal(plan.status)) return plan;
  if (const auto left = UntilDeadline(observed)) RequeueWithin(plan, *left);
  // Nothing in the cluster changes when training makes progress, so it is asked for.
  const bool reports = observed.job.spec.training && IsTrue(plan.status, kRunning);
  if (reports) RequeueWithin(plan, observed.settings.status_interval);
  return plan;
}

}  // namespace

Plan MakePlan(const Observed& observed) {
  if (auto nothing = PlanNothing(observed)) return *std::move(nothing);
  for (const auto rule : {PlanFinished, PlanInvalid, PlanSucceeded, PlanQueued, PlanSuspended,
                          PlanDeadline, PlanRejected, PlanRestart, PlanRescaled}) {
    if (std::optional<Plan> plan = rule(observed)) return Finalized(observed, *std::move(plan));
  }
  return Finalized(observed, PlanRunning(observed));
}

}  // namespace lockstep::controller
