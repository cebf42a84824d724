// The Evaluator of a job whose training has ended. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Waits until the Evaluator has finished the last checkpoint. The wait is over
// Settings::evaluator_grace after `trained`, when training ended, or after the Evaluator last
// reported a batch. It does not end before the Evaluator could answer once: this process polls it
// only from `known` on, when it learned that training had ended. The job's deadline ends the wait
// too. Meanwhile a pod of the Evaluator that is lost, or fails and may be retried, is counted
// and replaced as during training; no other replica's is.
// Returns nullopt if there is nothing to wait for: the job has no Evaluator, the Evaluator has
// succeeded, it will not run again (a permanent failure, the job is suspended or its quota is taken
// back, its back-off lasts longer), or the wait is over.
std::optional<Plan> LastEvaluationPlan(const Observed& observed, Time trained, Time known);

// Returns what the status of a job that has succeeded adds about an Evaluator that has not: "; the
// Evaluator has not finished: evaluator-0 exited with code 11"; empty if there is none. Names what
// has happened to its pod, or to its last pod if it has none now.
std::string MissingEvaluation(const Observed& observed);

}  // namespace lockstep::controller
