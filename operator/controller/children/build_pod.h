// One replica's Pod, made from its role's template.
#pragma once

#include <string>
#include <vector>

#include "operator/controller/children/cluster_spec.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Name, labels, owner, DNS name, environment and restart policy; with `training`, also what the
// bundled trainer's pods have by default. What the template sets itself stays as it is, except
// restartPolicy (the job's restartScope and the role's restartPolicy decide it).
kube::Object BuildPod(const ClusterSpec& cluster, const Settings& settings, const Replica& replica,
                      int attempt);

// The role's pod spec alone, as all its pods have it: the template with what the bundled trainer,
// restartScope and schedulingPolicy add, without name, environment or PodGroup.
kube::Object PodSpecOf(const api::TrainingJob& job, const Settings& settings, api::Role role);

// Names of our environment variables that a template of the job sets itself (they win), sorted.
std::vector<std::string> OverriddenEnv(const api::TrainingJob& job);

}  // namespace lockstep::controller
