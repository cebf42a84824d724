// The environment variables that tell a replica who it is and where the others are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operator/controller/children/cluster_spec.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

inline constexpr char kEnvTorchNodes[] = "PET_NNODES";
inline constexpr char kEnvTorchRank[] = "RANK";
inline constexpr char kEnvTorchRendezvous[] = "PET_RDZV_CONF";

struct EnvVar {
  std::string name;
  api::Json source;  // a string: the value; an object: valueFrom
  bool operator==(const EnvVar&) const = default;
};

// Returns the variables of the replica's main container: TF_CONFIG, LOCKSTEP_*, and for replicas
// that train those of torchrun and JAX. A main container named tensorflow, pytorch or jax gets only
// what its framework reads; the bundled trainer gets LOCKSTEP_* and TF_CONFIG. A program of the
// user's that trains alone (Independent) always gets LOCKSTEP_*, its torchrun is told of a group of
// one, and nothing tells it where it could meet the others.
std::vector<EnvVar> ReplicaEnv(const ClusterSpec& cluster, const Replica& replica, int attempt);

// Returns the variables of every other container: the same without TF_CONFIG and what only the
// bundled trainer reads. Those grow with the job and with `training`, and a pod may have hundreds
// of containers.
std::vector<EnvVar> SidecarEnv(const ClusterSpec& cluster, const Replica& replica, int attempt);

// Returns false if TF_CONFIG is too long and the role's program may well do without it.
bool HasTfConfig(const api::TrainingJob& job, api::Role role);

// Returns true if the role's program is torchrun, as far as one can tell, of an elastic job, so
// that PET_NNODES tells it the bounds of its size. It takes in no worker beyond them.
bool TellsElasticBounds(const api::TrainingJob& job, api::Role role);

// Returns the job's processesPerPod; if unset, the number of devices of the role's main container,
// at least 1: of NVIDIA's GPUs with `training`, else of all that api::AcceleratorsOf counts.
int ProcessesPerPod(const api::TrainingJob& job, api::Role role);

}  // namespace lockstep::controller
