// The parts of a status that all rules write the same way. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/v1/conditions.h"
#include "api/v1/training_job.h"
#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

using api::FindCondition;
using api::IsTerminal;
using api::IsTrue;
using api::kCreated;
using api::kFailed;
using api::kRestarting;
using api::kRunning;
using api::kSucceeded;
using api::kSuspended;

// Adds or changes a condition. Its transition time changes only with its status.
void SetCondition(const Observed& observed, api::TrainingJobStatus& status, std::string_view type,
                  bool value, std::string reason, std::string message);
// Sets a condition to False if it is True; does nothing otherwise.
void ClearCondition(const Observed& observed, api::TrainingJobStatus& status, std::string_view type,
                    std::string reason, std::string message);

// Writes observed.action_fault, if there is one, to the condition `type`, whose status stays as it
// is; adds a warning if the condition did not say so before.
void AddActionFault(const Observed& observed, std::string_view type, Plan& plan);

// Returns when the job became active. Without a start time yet, returns now; or, if the job's first
// status is still to be written, when this process first saw it.
Time StartTime(const Observed& observed);

// Returns true if the pod has succeeded and its work is done (CountsAsSuccess). A helper that has
// ended since its pod is being deleted may have been told to: running it again does less harm than
// not.
bool HasFinished(const Observed& observed, const ObservedPod& pod);
// Returns true if the pod shows that its replica has finished in the present attempt, and the
// status notes which ones of its role have: workers, and helpers.
bool ShowsCompletion(const Observed& observed, const ObservedPod& pod);

// Notes such a replica. Does nothing if the status has it already.
void AddCompleted(const Replica& replica, api::TrainingJobStatus& status);

// Notes those of the present attempt that have succeeded, since their pods may be deleted later.
void NoteCompleted(const Observed& observed, api::TrainingJobStatus& status);

// Returns the results of an Independent job's processes that have ended: those in its status and
// those that its pods have left. Takes a pod's word for its own variants only, since tenants decide
// what their pods report.
std::vector<api::VariantResult> VariantResults(const Observed& observed);

// Returns what holds whatever the decision: the old status with the current generation, counts and
// progress, Created, and the start time of a job that is not suspended.
api::TrainingJobStatus BaseStatus(const Observed& observed);

// End a job: Running and Restarting turn False.
Plan SucceededPlan(const Observed& observed, const std::string& message);
Plan FailedPlan(const Observed& observed, api::FailureReason reason, const std::string& message);

// Defers the status, and the events about it, to a reconcile after `delay`.
void PutOffStatus(const Observed& observed, Duration delay, Plan& plan);

// The state of a job without a condition that says more.
inline constexpr char kPending[] = "Pending";

// Returns the state for the printer column, e.g. "Running".
std::string StateOf(const api::TrainingJobStatus& status);

// Returns true if only counts, progress, reasons and other deferrable fields differ.
bool DiffersOnlyInCounts(const api::TrainingJobStatus& status,
                         const api::TrainingJobStatus& written);

// Returns `time` plus `seconds`, capped at the schema's maximum so that the result fits a Time.
Time SecondsAfter(Time time, std::int64_t seconds);

// Truncates to whole seconds, as API objects carry them.
Time WholeSeconds(Time time);

// Lowers requeue_after to `delay`, unless it is earlier already.
void RequeueWithin(Plan& plan, Duration delay);

}  // namespace lockstep::controller
