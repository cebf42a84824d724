// What the operator would create for a job, without a cluster.
#pragma once

#include <vector>

#include "operator/controller/children/addresses.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// The job's Service, its PodGroup where a gang scheduler is used, then every Pod of its first
// attempt, chief first. Expects a job that WithDefaults has completed and Validate has passed.
std::vector<kube::Object> RenderObjects(const api::TrainingJob& job, const Addresses& addresses,
                                        const Settings& settings = {});

}  // namespace lockstep::controller
