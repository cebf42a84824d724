#include "operator/controller/rules/make_plan.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "operator/controller/rules/deadline_rule.h"
#include "operator/controller/rules/deleted_rule.h"
#include "operator/controller/rules/evaluator_rule.h"
#include "operator/controller/rules/finalize_plan.h"
#include "operator/controller/rules/finish_rule.h"
#include "operator/controller/rules/foreign_rule.h"
#include "operator/controller/rules/invalid_rule.h"
#include "operator/controller/rules/kueue_rule.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/rules/parts/progress_deadline.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/rejected_rule.h"
#include "operator/controller/rules/rescale_rule.h"
#include "operator/controller/rules/restart_rule.h"
#include "operator/controller/rules/running_rule.h"
#include "operator/controller/rules/shrunk_rule.h"
#include "operator/controller/rules/suspend_rule.h"

namespace lockstep::controller {
namespace {

// The order of the rules: the first one that applies makes the plan. Each comment says why the rule
// comes before those below it. make_plan_test.cc has, for each reason, a job to which both rules
// apply.
constexpr Rule kRules[] = {
    // A job that is not ours to change is not looked at any further, whatever its state.
    PlanForeign,

    // A job that is being deleted only stops: no rule below may create anything for it, or write
    // its status. PlanFinished would leave running what cleanPodPolicy keeps, or delete the job
    // again.
    PlanDeleted,

    // A terminal condition is final, but the pods that ended the job may still exist: most rules
    // below would apply to them again.
    PlanFinished,

    // A job that can never start fails at once. PlanSuspended would keep it waiting, PlanQueued
    // would only take its Workload away. Commutes with PlanSucceeded: a job that has succeeded has
    // had pods.
    PlanInvalid,

    // Training that is done stays done, whatever else is seen with it. PlanQueued and PlanSuspended
    // would stop the job and forget which replicas have finished, PlanDeadline and PlanRestart
    // would fail or restart it, and PlanHeld would leave it as it is. Work under an earlier
    // strategy does not count as training: PlanSuspended or PlanRescaled ends such an attempt. An
    // edit that removes the replicas which still train does not end the job either.
    PlanSucceeded,

    // Kueue's decision is what spec.suspend follows. PlanSuspended applies for as long as
    // spec.suspend is true, so after it this rule could neither ask for quota nor resume the job.
    // A job without quota does not run: it gets no pods from PlanRunning, and its failures and its
    // deadline cost it nothing.
    PlanQueued,

    // Stopping a job needs nothing from its spec, so it comes before PlanHeld. Failures seen with
    // it are not charged (PlanRejected, PlanRestart), since all pods are deleted anyway. Commutes
    // with PlanDeadline if spec.suspend stops the job, which ends the deadline too; a job that
    // Kueue stops without spec.suspend must not fail for time that no longer counts.
    PlanSuspended,

    // Ending a job needs no valid spec either (PlanHeld). A job past its deadline is not restarted,
    // and does not wait until PlanRestart knows the cause of a failure. Commutes with PlanRejected
    // but for the reason in the status: both fail the job.
    PlanDeadline,

    // All rules below create, judge or replace pods by the spec, which is unusable.
    PlanHeld,

    // The rules below note the edit in the status, after which nobody can tell that it alone has
    // left no replica that trains: PlanSucceeded would end the job at the next look. Commutes with
    // PlanRescaled but for the reason: both open the next attempt.
    PlanShrunk,

    // PlanRestart and PlanRescaled count a restart or open an attempt. After that a template counts
    // as one that the server has accepted, so this rule would never apply again.
    PlanRejected,

    // PlanRestart may wait until it knows the cause of its failures, and this one need not wait for
    // that. Both PlanRestart and PlanRescaled may open the next attempt, and failures of an earlier
    // one are never counted.
    PlanEvaluatorRestart,

    // PlanRescaled opens the next attempt, and failures of an earlier one are never charged.
    PlanRestart,

    // PlanRunning would mix pods of two sizes, or of two strategies, in one attempt.
    PlanRescaled,

    // A job whose status says Suspended has no pods, so PlanRunning may create them only after this
    // has been written. Commutes with PlanSuspended, which handles the opposite case, and with
    // PlanRestart and PlanRescaled: they need pods of the present attempt, and PlanSuspended has
    // closed the one that had them.
    PlanResumed,

    // Applies to every job, so it is last.
    PlanRunning,
};

// After how long a job that has not ended must be looked at again, whichever rule has made the
// plan; nullopt: not for this. A rule that applies only from some time on does not make the plan
// before, so it cannot ask for that time itself.
using Timer = std::optional<Duration> (*)(const Observed& observed);
constexpr Timer kTimers[] = {
    UntilDeadline,          // PlanDeadline applies then
    UntilLeaderFails,       // PlanRestart does
    UntilProgressDeadline,  // and here, too
    UntilRestartsCount,     // likewise
};

// Plans of these jobs are not finalized: not even the state is written.
bool IsLeftAlone(Rule rule) {
  return rule == PlanForeign || rule == PlanDeleted;
}

}  // namespace

Plan MakePlan(const Observed& observed) {
  for (const Rule rule : kRules) {
    std::optional<Plan> made = rule(observed);
    if (!made) continue;
    if (IsLeftAlone(rule)) return *std::move(made);
    Plan plan = Finalized(observed, *std::move(made));
    if (IsTerminal(observed.job.status) || IsTerminal(plan.status)) return plan;
    for (const Timer until : kTimers) {
      // Once the time has passed, a rule that comes before applies. What that rule waits for brings
      // the job back; this would do so a thousand times per second.
      const std::optional<Duration> left = until(observed);
      if (left > Duration::zero()) RequeueWithin(plan, *left);
    }
    return plan;
  }
  LOCKSTEP_CHECK(false, "the last rule applies to every job");
}

}  // namespace lockstep::controller
