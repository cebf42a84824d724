// An Evaluator that fails. Training does not need it, so its failures cost the job nothing, except
// that a job whose numbers are no longer finite has diverged, whoever finds that. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Counts the failure of an Evaluator that is not counted yet: in restarts.evaluator, or as a
// disruption. It restarts no other replica and delays none. A permanent failure is reported and
// counted nowhere; if its exit code says that the run has diverged, it fails the job, as that of a
// replica that trains does. Else the plan only records the failure: see AddEvaluatorReplacement.
// Returns nullopt if there is no such failure.
std::optional<Plan> PlanEvaluatorRestart(const Observed& observed);

// Deletes the pod of an Evaluator whose failure is counted, once its successor is due. Until then,
// and for ever after a permanent failure, the failed pod and its log stay; but one whose sidecars
// still run after a permanent failure is deleted, since it holds resources for nothing.
void AddEvaluatorReplacement(const Observed& observed, Plan& plan);

// Returns true if the successor of a lost Evaluator is not due yet, whoever deletes the lost pod:
// something that deletes or rejects each pod at once must not have pods created without end. Then
// adds to the plan when it is due.
bool MustEvaluatorWait(const Observed& observed, Plan& plan);

// Returns true if the Evaluator has failed and will not be replaced in this attempt.
bool IsEvaluatorGone(const Observed& observed);

}  // namespace lockstep::controller
