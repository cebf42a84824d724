// What a lost replica costs and who starts again. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/plan.h"

namespace lockstep::controller {

enum class LossCause {
  kPermanent,    // will fail again: the job fails
  kApplication,  // charged to backoffLimit
  kDisruption,   // preempted, drained, evicted, node lost, deleted: free
};

// Why a pod that has failed, or is being deleted by somebody, was lost. One that had failed before
// it was deleted has failed.
LossCause Classify(const api::TrainingJob& job, const ObservedPod& pod);

// Charges new losses: all of a gang's pods start again as the next attempt; in the other scopes,
// and always for an Evaluator, only the pod that was lost. The plan only writes that down; when it
// is written, PlanRunning deletes and creates. Fails the job for a permanent loss or when
// backoffLimit is spent. Nothing if no replica was lost.
std::optional<Plan> PlanRestart(const Observed& observed);

// Before the n-th restart (>= 1) in a row without progress; the first is immediate.
Duration RestartDelay(const Settings& settings, int restarts);

}  // namespace lockstep::controller
