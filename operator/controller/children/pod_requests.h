// What a pod asks a scheduler for. Pure.
#pragma once

#include <map>
#include <string>

#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns what one pod of this spec requests (requests, else limits), as schedulers count it: the
// sum over its containers and sidecars (init containers that keep running), or what the largest
// init container and the sidecars before it need if that is more; the pod's own `resources`
// instead, where they are set; plus `overhead`. Quantities that do not parse count as zero. A
// RuntimeClass's overhead is not counted, since the API server adds it only when it creates the
// pod.
std::map<std::string, double> PodRequests(const kube::Object& pod_spec);

}  // namespace lockstep::controller
