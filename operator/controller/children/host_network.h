// What pods with their node's network (hostNetwork) need beside the others.
#pragma once

#include "operator/controller/state/replicas.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Adds to `spec`, the pod spec of a replica, if it has `hostNetwork: true`: the cluster's DNS,
// since the node's knows no replica, unless the template has a dnsPolicy; and the cluster port of a
// replica whose program listens there, unless a container has declared it. Kubernetes takes it for
// a port of the node, so that it places only one such pod there.
void AddHostNetwork(const api::TrainingJob& job, const Replica& replica, kube::Object& spec);

}  // namespace lockstep::controller
