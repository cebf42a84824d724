// The environment that tells a replica who it is and where the others are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operator/controller/children/cluster_spec.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

struct EnvVar {
  std::string name;
  api::Json source;  // a string: the value; an object: valueFrom
  bool operator==(const EnvVar&) const = default;
};

// Of the replica's main container: TF_CONFIG, LOCKSTEP_*, and for those that train torchrun's and
// JAX's variables. A main container called tensorflow, pytorch or jax gets what its framework reads
// only, the bundled trainer TF_CONFIG.
std::vector<EnvVar> ReplicaEnv(const ClusterSpec& cluster, const Replica& replica, int attempt);

// Of each container beside it: the same without TF_CONFIG and what only the bundled trainer reads.
// Those grow with the job and with `training`, and a pod may have hundreds of containers.
std::vector<EnvVar> SidecarEnv(const ClusterSpec& cluster, const Replica& replica, int attempt);

// False if it is too long and the role's program may well do without.
bool HasTfConfig(const api::TrainingJob& job, api::Role role);

// GPUs of the role's main container, if the job does not say otherwise; at least 1.
int ProcessesPerPod(const api::TrainingJob& job, api::Role role);

}  // namespace lockstep::controller
