// What all rules write the same way into a status: its conditions, and what holds whatever they
// decide. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/v1/conditions.h"
#include "api/v1/training_job.h"
#include "operator/controller/rules/parts/plan.h"
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

// Returns what holds whatever the decision: the old status with the current generation, counts and
// progress, Created, and the start time of a job that is not suspended.
api::TrainingJobStatus BaseStatus(const Observed& observed);

// The state of a job without a condition that says more.
inline constexpr char kPending[] = "Pending";

// Returns the state for the printer column, e.g. "Running".
std::string StateOf(const api::TrainingJobStatus& status);

// Returns true if only counts, progress, reasons and other deferrable fields differ.
bool DiffersOnlyInCounts(const api::TrainingJobStatus& status,
                         const api::TrainingJobStatus& written);

}  // namespace lockstep::controller
