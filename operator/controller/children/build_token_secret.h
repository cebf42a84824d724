// The Secret with a job's token, and how the job's pods come by it. Pure.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Made of the job's uid, so that a job of the same name has another one.
std::string TokenSecretName(const api::TrainingJob& job);

// Immutable, and collected with the job.
kube::Object BuildTokenSecret(const api::TrainingJob& job, const std::string& token);

// Mounts the Secret into the main container of a pod of the job's, and names the file in its
// environment unless the template does. The volume's name is one that the template does not use. A
// template that mounts something at the Secret's place itself keeps that, and the file is looked
// for in it. The annotation tells later that this pod has it.
void MountToken(const api::TrainingJob& job, kube::Object& pod);

}  // namespace lockstep::controller
