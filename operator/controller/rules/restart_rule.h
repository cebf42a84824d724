// What a lost replica costs and who starts again. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/rules/plan.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Finds what was lost first, and charges that, once: a peer that ends by itself while another was
// disrupted, killed by a signal or for its memory, or is on a silent node, ends because of that. So
// that this is known, members of other images that end by themselves wait for Settings::settling.
// The bundled trainer says by its code that it lost a peer; that costs nothing while a replica that
// it waits for is not there. All of a gang's pods start again as the next attempt, and so do
// those of the bundled trainer if its leading replica is lost after others have finished; in the
// other scopes, and always for an Evaluator, only the pod that was lost. The plan only writes that
// down; when it is written, PlanRunning deletes and creates. Fails the job for a permanent loss or
// when backoffLimit is spent. Nothing if no replica was lost.
std::optional<Plan> PlanRestart(const Observed& observed);

// Before the n-th restart (>= 1) in a row without progress; the first is immediate.
Duration RestartDelay(const Settings& settings, int restarts);

}  // namespace lockstep::controller
