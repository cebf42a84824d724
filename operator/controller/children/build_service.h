// The job's headless Service, which gives each pod its DNS name, and what it has in common with all
// that is made for a job.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Named like the job. Publishes pods before they are ready: they find each other to become ready.
kube::Object BuildService(const api::TrainingJob& job);

// The metadata that every object made for the job has: the name, the job's namespace, the labels
// job-name and job-uid, and the job as its controller.
kube::Object ChildMetadata(const api::TrainingJob& job, const std::string& name);

}  // namespace lockstep::controller
