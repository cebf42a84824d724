// Builds one replica's Pod from its role's template.
#pragma once

#include <string>
#include <vector>

#include "operator/controller/children/cluster_spec.h"
#include "operator/controller/state/replicas.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns the template with name, labels, owner, DNS name, environment and restart policy added;
// with `training`, also the defaults of the bundled trainer's pods; without it, a DNS search domain
// and unbuffered Python; with hostNetwork, what AddHostNetwork adds. Keeps what the template sets,
// except what identifies the pod (name, our labels and annotations, hostname, subdomain) and the
// restartPolicy of the pod and its main container (restartScope and the role's policy decide it).
kube::Object BuildPod(const ClusterSpec& cluster, const Settings& settings, const Replica& replica,
                      int attempt);

// Returns the pod spec that all pods of the role share: the template with what the bundled trainer,
// restartScope and schedulingPolicy add, without name, environment or PodGroup.
kube::Object PodSpecOf(const api::TrainingJob& job, const Settings& settings, api::Role role);

// Returns the sorted names of our environment variables that a template of the job sets itself. The
// template's values win.
std::vector<std::string> OverriddenEnv(const api::TrainingJob& job);

}  // namespace lockstep::controller
