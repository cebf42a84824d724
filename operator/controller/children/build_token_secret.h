// The Secret that holds a job's token, and how it gets into the job's pods. Pure.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns a name that contains the job's uid, so that it differs for a later job of the same name.
std::string TokenSecretName(const api::TrainingJob& job);

// Returns an immutable Secret that is garbage-collected with the job. It holds the token, and the
// bearer of reports that is made of it.
kube::Object BuildTokenSecret(const api::TrainingJob& job, const std::string& token);

// Mounts the Secret into the main container of a pod of the job, under a volume name that the
// template does not use, and sets the environment variable with the file's path unless the template
// does. If the template mounts something at the same path, that mount is kept, and the file is
// expected in it. An annotation records that the pod has the token. If there is a
// Settings::progress_url, variables tell a program that is not the bundled trainer where it may
// report the progress of this attempt, and where its bearer is.
void MountToken(const api::TrainingJob& job, int attempt, const std::string& progress_url,
                kube::Object& pod);

}  // namespace lockstep::controller
