// How a job succeeds, and what remains to do for a job that has ended. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Handles a job with a terminal condition: cleans up its pods (cleanPodPolicy), and deletes the job
// when ttlSecondsAfterFinished has passed. Cleans up beside a delete that fails. Never changes its
// status again.
std::optional<Plan> PlanFinished(const Observed& observed);

// Returns since when training is over, because the job has met its success policy; nullopt if it is
// not, or if its attempt has another strategy (HasOtherStrategy). An edit that the status does not
// know yet ends no training: by the spec before it, too, the replicas must have succeeded. The
// leading replica's success is that of its whole training group, and if its pod is lost at the very
// end, so is that of a bundled parameter server. Reads observed.training_end_seen.
std::optional<Time> TrainingEnd(const Observed& observed);

// Returns true if the replicas that decide have succeeded, but not those that decided before an
// edit which the status does not know yet, or before the job was suspended.
bool IsOverByEditAlone(const Observed& observed);

// Ends a job whose training is over. The Evaluator first gets some time: see LastEvaluationPlan.
std::optional<Plan> PlanSucceeded(const Observed& observed);

}  // namespace lockstep::controller
