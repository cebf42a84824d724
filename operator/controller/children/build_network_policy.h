// Who may connect to a job's pods.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

inline const kube::Kind kNetworkPolicyKind{"networking.k8s.io", "v1", "NetworkPolicy",
                                           "networkpolicies"};

// Made of the job's uid, so that a job of the same name has another one.
std::string NetworkPolicyName(const api::TrainingJob& job);

// Notes on a pod of the job's that its attempt was made with a policy.
void NoteNetworkPolicy(const api::TrainingJob& job, kube::Object& pod);

// Lets in the job's own pods on all ports, the operator's namespace on the leading replica's
// cluster port if the job uses the bundled trainer, and the scrapers' namespace on the metrics
// port; an empty namespace is nobody. All of the job's pods are selected, so the ports are open on
// each of them. Nothing is said of what the pods may connect to. Pure.
kube::Object BuildNetworkPolicy(const api::TrainingJob& job, const Settings& settings);

}  // namespace lockstep::controller
