// What a pod failure costs and which replicas restart. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/rules/parts/pod_failures.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Without progress reports, a job counts as healthy after running this long since its last restart.
inline constexpr Duration kHealthyRun = std::chrono::minutes(10);

// Finds the cause and charges it once. A peer that ends by itself while another was disrupted,
// killed by a signal or for its memory, or is on a silent node, is a consequence. To learn of such
// causes, failures that may be consequences wait for Settings::settling. An exit code of the
// bundled trainer says that it lost a peer; it is not charged while a replica that it waits for is
// missing. A success of a role that must always run is charged, too: on its own, after the failures
// seen at the same time, and without an entry in status.failure.
//
// Training without progress (progress_deadline.h) is one failure, if no replica has failed.
//
// A gang's pods all restart as the next attempt; so do the bundled trainer's if its leading replica
// fails after others have finished, and those of any job without progress. In the other scopes only
// the failed pod restarts. The Evaluator is handled elsewhere: see evaluator_rule.h. Losses within
// Settings::settling of the first one, each of another replica, are one incident, which is delayed
// like one restart. The plan only records that; once it is written, PlanRunning deletes and
// creates. Fails the job for a permanent failure or when backoffLimit is spent, by these charges
// and the kubelet's restarts together. Returns nullopt if no replica failed.
std::optional<Plan> PlanRestart(const Observed& observed);

// Returns how long to wait until more of the kubelet's restarts may count: some may still be
// explained by a loss that is not known yet.
std::optional<Duration> UntilRestartsCount(const Observed& observed);

// Fails the job for a failure that counts as kPermanent.
Plan FailedForGood(const Observed& observed, const PodFailure& permanent);

// Returns the delay before the n-th restart (>= 1) in a row without progress; the first is
// immediate.
Duration RestartDelay(const Settings& settings, int restarts);

}  // namespace lockstep::controller
