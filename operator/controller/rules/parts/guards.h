// The guards that keep strangers from a job's pods and exist before the pods do: the Secret with
// the job's token and the NetworkPolicy. The operator may create but not read them, so it does not
// know if somebody has deleted them: it creates them again for each attempt, and when a pod that
// never began is replaced. An attempt that began without a guard does not get it later: its pods
// carry a note of each guard.
#pragma once

#include <optional>

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns true if the pods of the present attempt have the job's token. All have it or none, since
// one that has it cannot join one that has not: existing pods decide for later ones, whatever the
// settings of the operator that created them. Without pods, Settings and spec.jobToken decide.
bool HasToken(const Observed& observed);

// Returns true if the Secret of the present attempt's token has the bearer of reports. Existing
// pods decide for later ones here too. Without pods, Settings and whose program it is decide.
bool HasReportBearer(const Observed& observed);

// Returns true if the present attempt has a NetworkPolicy. An attempt that began without one stays
// without: the policy selects all pods of the job, and could cut existing connections.
bool HasNetworkPolicy(const Observed& observed);

// Returns the operator's trainer images that the present attempt's pods, of whatever role, were
// created with, if this operator has others: trainers of two versions may not understand each
// other. None if the images agree, or if no such pod has started and one of them cannot pull its
// image, which must not be used again.
std::optional<TrainerImages> PeersImages(const Observed& observed);

// Adds the guards to a plan that creates pods. If the attempt has pods already, a rejected create
// does not keep a new pod from its peers (CreateTokenSecret::is_repeat).
void AddGuards(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
