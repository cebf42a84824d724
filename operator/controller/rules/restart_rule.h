// What a pod failure costs and which replicas restart. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/rules/plan.h"
#include "operator/controller/rules/pod_failures.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Finds the cause and charges it once. A peer that ends by itself while another was disrupted,
// killed by a signal or for its memory, or is on a silent node, is a consequence. To learn of such
// causes, failures that may be consequences wait for Settings::settling. The bundled trainer's exit
// code says that it lost a peer; that is free while a replica that it waits for is not there.
//
// A gang's pods all restart as the next attempt; so do the bundled trainer's if its leading replica
// fails after others have finished. In the other scopes, and always for an Evaluator, only the
// failed pod restarts. What is lost within Settings::settling of a first loss, each replica once,
// is one incident: it is delayed as one restart is. The plan only records that; once it is written,
// PlanRunning deletes and creates. Fails the job for a permanent failure or when backoffLimit is
// spent. Returns nullopt if no replica failed.
std::optional<Plan> PlanRestart(const Observed& observed);

// Charges one failure, after which its replica alone restarts, as PlanRestart does. Returns nullopt
// if the failure is permanent or backoffLimit is spent.
std::optional<Plan> PlanReplacement(const Observed& observed, const PodFailure& failure);

// Returns the delay before the n-th restart (>= 1) in a row without progress; the first is
// immediate.
Duration RestartDelay(const Settings& settings, int restarts);

}  // namespace lockstep::controller
