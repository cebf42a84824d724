#include "operator/controller/rules/make_plan.h"

#include <algorithm>

#include "operator/controller/rules/deadline_rule.h"
#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/kueue_rule.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/rules/rejected_rule.h"
#include "operator/controller/rules/rescale_rule.h"
#include "operator/controller/rules/restart_rule.h"
#include "operator/controller/rules/running_rule.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/rules/suspend_rule.h"

namespace lockstep::controller {
namespace {

// spec.managedBy of our jobs, if it is not empty.
constexpr char kManagedBy[] = "training.lockstep.dev/operator";

// Leaves alone a job of another manager, and one that is being deleted.
std::optional<Plan> PlanNothing(const Observed& observed) {
  const std::string& managed_by = observed.job.spec.managed_by;
  const bool foreign = !managed_by.empty() && managed_by != kManagedBy;
  if (!foreign && !observed.job.metadata.deletion_time) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  return plan;
}

// Returns true if the job has had pods, as far as this process or its status knows.
bool HasHadPods(const Observed& observed) {
  const api::TrainingJobStatus& status = observed.job.status;
  return !observed.pods.empty() || status.attempt > 0 || IsTrue(status, kRunning) ||
         !status.completed_indexes.empty() || status.restart_count > 0;
}

std::optional<Plan> PlanInvalid(const Observed& observed) {
  if (!observed.invalid || HasHadPods(observed)) return std::nullopt;
  return TerminalPlan(observed, kFailed, "InvalidSpec", *observed.invalid);
}

// A spec that was valid and no longer is has met another version of the schema or of this program.
// Until they agree again, no pod is created and no failure is judged, since both need a spec. The
// rules that end or suspend a job run before this one, since they do not.
std::optional<Plan> PlanHeld(const Observed& observed) {
  if (!observed.invalid) return std::nullopt;
  Plan plan;
  plan.status = observed.job.status;
  NoteCompletedIndexes(observed, plan.status);
  return plan;
}

void AddHeld(const Observed& observed, Plan& plan) {
  const api::Condition* before = FindCondition(observed.job.status, kRunning);
  const bool is_new = before == nullptr || before->reason != "InvalidSpec";
  SetCondition(observed, plan.status, kRunning, IsTrue(plan.status, kRunning), "InvalidSpec",
               "no pod is created or restarted: " + *observed.invalid);
  if (is_new) {
    plan.events.push_back({PlannedEvent::Type::kWarning, "InvalidSpec", *observed.invalid});
  }
}

// Defers counts and progress, which change all the time and may be a little old.
void HoldBackCounts(const Observed& observed, Plan& plan) {
  // People look for what came with a warning.
  if (!observed.last_status_write || !plan.status_can_wait || !plan.events.empty()) return;
  const Duration left =
      *observed.last_status_write + observed.settings.status_interval - observed.now;
  if (left > Duration::zero()) PutOffStatus(observed, left, plan);
}

// Returns true if there is nothing to report about a new job except its first sight.
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

// Returns true if the status or reason of a condition has changed. Messages may differ.
bool SaysMore(const api::TrainingJobStatus& status, const api::TrainingJobStatus& written) {
  return !std::ranges::equal(
      status.conditions, written.conditions, [](const auto& a, const auto& b) {
        return a.type == b.type && a.status == b.status && a.reason == b.reason;
      });
}

Plan Finalized(const Observed& observed, Plan plan) {
  if (IsTerminal(observed.job.status)) return plan;
  if (observed.invalid && !IsTerminal(plan.status)) AddHeld(observed, plan);
  // A rule that has nothing to report yet about a new job must not cause a write for its state
  // alone.
  const bool is_new = observed.job.status.state.empty() && plan.status == observed.job.status;
  if (!is_new) plan.status.state = StateOf(plan.status);
  plan.status_can_wait = CanWait(plan, observed.job.status);
  plan.only_counts =
      plan.status_can_wait && plan.events.empty() && !SaysMore(plan.status, observed.job.status);
  HoldBackCounts(observed, plan);
  if (IsTerminal(plan.status)) return plan;
  if (const auto left = UntilDeadline(observed)) RequeueWithin(plan, *left);
  if (observed.until_stranded > Duration::zero()) RequeueWithin(plan, *observed.until_stranded);
  // Progress changes nothing in the cluster, so it has to be polled.
  const bool reports = observed.job.spec.training && IsTrue(plan.status, kRunning);
  if (reports) RequeueWithin(plan, observed.settings.status_interval);
  return plan;
}

}  // namespace

Plan MakePlan(const Observed& observed) {
  if (auto nothing = PlanNothing(observed)) return *std::move(nothing);
  for (const auto rule : {PlanFinished, PlanInvalid, PlanSucceeded, PlanQueued, PlanSuspended,
                          PlanDeadline, PlanHeld, PlanRejected, PlanRestart, PlanRescaled}) {
    if (std::optional<Plan> plan = rule(observed)) return Finalized(observed, *std::move(plan));
  }
  return Finalized(observed, PlanRunning(observed));
}

}  // namespace lockstep::controller
