// Renders what the operator would create for a job, without a cluster.
#pragma once

#include <vector>

#include "operator/controller/children/addresses.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns the job's Service, its PodGroup with a gang scheduler, then every Pod of its first
// attempt, chief first. Requires: a job completed by WithDefaults that has passed Validate.
std::vector<kube::Object> RenderObjects(const api::TrainingJob& job, const Addresses& addresses,
                                        const Settings& settings = {});

}  // namespace lockstep::controller
