// The parts of a status that every rule writes the same way. Pure.
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
using api::IsTrue;
using api::kCreated;
using api::kFailed;
using api::kRestarting;
using api::kRunning;
using api::kSucceeded;
using api::kSuspended;

bool IsTerminal(const api::TrainingJobStatus& status);

// Adds or changes a condition; its transition time changes only with its status.
void SetCondition(const Observed& observed, api::TrainingJobStatus& status, std::string_view type,
                  bool value, std::string reason, std::string message);
// The same for one that must be False, but is left out while it has never been True.
void ClearCondition(const Observed& observed, api::TrainingJobStatus& status, std::string_view type,
                    std::string reason, std::string message);

// When the job became active, or, now, does: of a job whose first status is still to be written,
// when it was seen.
Time StartTime(const Observed& observed);

// Adds the workers of the present attempt that have succeeded: their pods may be gone tomorrow.
void NoteCompletedIndexes(const Observed& observed, api::TrainingJobStatus& status);

// What is true whatever the decision: the old status with today's generation, counts and progress,
// Created, and the start time of a job that is not suspended.
api::TrainingJobStatus BaseStatus(const Observed& observed);

// The end of a job: `type` is kSucceeded or kFailed; everything else turns False.
Plan TerminalPlan(const Observed& observed, std::string_view type, const std::string& reason,
                  const std::string& message);

// Leaves the status, and the events that tell of it, to a reconcile after `delay`.
void PutOffStatus(const Observed& observed, Duration delay, Plan& plan);

// The state of a job of which no condition says more.
inline constexpr char kPending[] = "Pending";

// "Running": what the printer column says.
std::string StateOf(const api::TrainingJobStatus& status);

// True if only counts, progress and their like differ: what may wait for a write.
bool DiffersOnlyInCounts(const api::TrainingJobStatus& status,
                         const api::TrainingJobStatus& written);

// Whole seconds after a time; a number of them that is too large for a time stands for the largest
// that the schema takes.
Time SecondsAfter(Time time, std::int64_t seconds);

// API objects carry whole seconds.
Time WholeSeconds(Time time);

// Makes requeue_after `delay`, or leaves it if it is earlier.
void RequeueWithin(Plan& plan, Duration delay);

}  // namespace lockstep::controller
