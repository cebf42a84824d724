// The job's headless Service, which gives each pod its DNS name.
#pragma once

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Named like the job. Publishes pods before they are ready: they find each other to become ready.
kube::Object BuildService(const api::TrainingJob& job);

// {"apiVersion", "kind", "name", "uid", "controller": true}.
kube::Object OwnerReferenceTo(const api::TrainingJob& job);

}  // namespace lockstep::controller
