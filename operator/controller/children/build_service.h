// The job's headless Service, which gives each pod its DNS name, and the metadata that all of a
// job's children share.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Has the job's name. Publishes pods before they are ready, since they must find each other to
// become ready.
kube::Object BuildService(const api::TrainingJob& job);

// Returns the metadata that every child has: the name, the job's namespace, the labels job-name and
// job-uid, and the job as its controller.
kube::Object ChildMetadata(const api::TrainingJob& job, const std::string& name);

}  // namespace lockstep::controller
