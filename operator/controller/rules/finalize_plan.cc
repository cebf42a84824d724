#include "operator/controller/rules/finalize_plan.h"

#include <algorithm>

#include "api/v1/defaults.h"
#include "operator/controller/rules/invalid_rule.h"
#include "operator/controller/rules/parts/kueue_grant.h"
#include "operator/controller/rules/parts/status.h"
#include "operator/controller/rules/parts/warnings.h"
#include "operator/controller/state/progress_reports.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// Defers counts and progress, which change all the time and may be a little old.
void HoldBackCounts(const Observed& observed, Plan& plan) {
  // People look for what came with a warning.
  if (!observed.last_status_write || !plan.status_can_wait || !plan.events.empty()) return;
  const Duration left =
      *observed.last_status_write + observed.settings.status_interval - observed.now;
  if (left > Duration::zero()) PutOffStatus(observed, left, plan);
}

// Workers of a group end almost together, and each status costs the API server more than a pod
// does: their ends are written together. Until then their pods show that they have succeeded, and
// SeenCompletions knows it of pods that are deleted.
void HoldBackCompletions(const Observed& observed, Plan& plan) {
  const api::TrainingJobStatus& written = observed.job.status;
  const std::size_t known = written.completed_indexes.size();
  if (plan.status.completed_indexes.size() <= known || !plan.events.empty()) return;
  api::TrainingJobStatus others = plan.status;
  others.completed_indexes = written.completed_indexes;
  if (!DiffersOnlyInCounts(others, written)) return;
  Duration left = observed.settings.completion_hold;
  for (const int index : plan.status.completed_indexes) {
    if (std::ranges::binary_search(written.completed_indexes, index)) continue;
    const ObservedPod* pod = FindPod(observed, {api::Role::kWorker, index});
    if (pod == nullptr || !pod->succeeded_since) return;
    left = std::min(left, *pod->succeeded_since + observed.settings.completion_hold - observed.now);
  }
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

// Returns true if the status tells for the first time that a program which reports has done all of
// its work. It may say nothing more, and a later process must not take that for a hang.
bool TellsOfLastReport(const Observed& observed, const Plan& plan) {
  const auto is_done = [](const std::optional<api::Progress>& progress) {
    return progress && ProgramReportsDone(*progress);
  };
  return !observed.job.spec.training && is_done(plan.status.progress) &&
         !is_done(observed.job.status.progress);
}

bool CanWait(const Observed& observed, const Plan& plan) {
  const api::TrainingJobStatus& written = observed.job.status;
  if (plan.status == written || TellsOfLastReport(observed, plan)) return false;
  return DiffersOnlyInCounts(plan.status, written) || IsPlainFirstSight(plan, written);
}

// Returns true if the status or reason of a condition has changed. Messages may differ.
bool SaysMore(const api::TrainingJobStatus& status, const api::TrainingJobStatus& written) {
  return !std::ranges::equal(
      status.conditions, written.conditions, [](const auto& a, const auto& b) {
        return a.type == b.type && a.status == b.status && a.reason == b.reason;
      });
}

}  // namespace

Plan Finalized(const Observed& observed, Plan plan) {
  if (IsTerminal(observed.job.status)) return plan;
  if (observed.invalid && !IsTerminal(plan.status)) AddInvalidSpec(observed, plan);
  if (!observed.invalid && !IsTerminal(plan.status)) AddWarnings(observed, plan);
  if (!IsTerminal(plan.status)) AddGrantedWorkers(observed, plan);
  // A rule that has nothing to report yet about a new job must not cause a write for its state
  // alone.
  const bool is_new = observed.job.status.state.empty() && plan.status == observed.job.status;
  if (!is_new) plan.status.state = StateOf(plan.status);
  plan.status_can_wait = CanWait(observed, plan);
  plan.only_counts =
      plan.status_can_wait && plan.events.empty() && !SaysMore(plan.status, observed.job.status);
  plan.only_first_sight = plan.status_can_wait && IsPlainFirstSight(plan, observed.job.status);
  HoldBackCounts(observed, plan);
  HoldBackCompletions(observed, plan);
  if (IsTerminal(plan.status)) return plan;
  // Progress changes nothing in the cluster, so it has to be polled.
  const bool reports = api::HasTrainingGroup(observed.job) && IsTrue(plan.status, kRunning);
  if (reports) RequeueWithin(plan, observed.settings.status_interval);
  return plan;
}

}  // namespace lockstep::controller
