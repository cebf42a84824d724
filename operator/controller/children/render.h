// Renders what the operator would create for a job, without a cluster.
#pragma once

#include <functional>
#include <vector>

#include "operator/controller/children/addresses.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Calls `take` with the job's Service, its PodGroup with a gang scheduler, then every Pod of its
// first attempt, chief first. Builds an object once `take` has returned for the one before it,
// since all pods of a large job may take more memory than there is. Requires: a job completed by
// WithDefaults that has passed Validate.
void RenderObjects(const api::TrainingJob& job, const Addresses& addresses,
                   const Settings& settings,
                   const std::function<void(const kube::Object& object)>& take);

// Returns of each role that has replicas the first Pod, in the same order. The others of a role
// differ from it in their names and environment only. Requires: as above.
std::vector<kube::Object> FirstPods(const api::TrainingJob& job, const Addresses& addresses);
// Returns the leading pod out of those that FirstPods has returned: the first, because the chief
// comes before the workers.
const kube::Object& LeadingPod(const std::vector<kube::Object>& first_pods);

}  // namespace lockstep::controller
