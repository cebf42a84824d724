// The NetworkPolicy that decides who may connect to a job's pods.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

inline const kube::Kind kNetworkPolicyKind{"networking.k8s.io", "v1", "NetworkPolicy",
                                           "networkpolicies"};

// Returns a name that contains the job's uid, so that it differs for a later job of the same name.
std::string NetworkPolicyName(const api::TrainingJob& job);

// Annotates a pod of the job to record that its attempt was created with a policy.
void NoteNetworkPolicy(const api::TrainingJob& job, kube::Object& pod);

// Builds a policy that admits the job's own pods on all ports, the operator's namespace on the
// cluster ports of the leading replica and the Evaluator if the job uses the bundled trainer, and
// the scrapers' namespace on the metrics port. An empty namespace admits nobody. The policy selects
// all of the job's pods, so these ports are open on each of them; it does not restrict egress.
// Pure.
kube::Object BuildNetworkPolicy(const api::TrainingJob& job, const Settings& settings);

}  // namespace lockstep::controller
