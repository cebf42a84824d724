// Defaults of the bundled trainer's pods. The template's own values win.
#pragma once

#include "api/v1/training_job.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Adds to `spec`, the pod spec of a role's template, the trainer's container if there is none, its
// image and command, an in-memory /dev/shm (64 MB is too little for NCCL), ports, and the
// restricted security profile. The profile is for all containers but those that the template makes
// privileged, and init containers that it runs as root: what these need only their author knows.
// The trainer's root file system is read-only if its image and command are ours and the folders
// that it writes are on mounted volumes.
void ApplyTrainerDefaults(const api::TrainingJob& job, const Settings& settings, api::Role role,
                          kube::Object& spec);

}  // namespace lockstep::controller
