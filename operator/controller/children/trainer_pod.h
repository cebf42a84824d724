// Defaults of the bundled trainer's pods. The template's own values win.
#pragma once

#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Adds to the pod spec `spec` the trainer's container if there is none, its image and command, an
// in-memory /dev/shm (64 MB is too little for NCCL), ports, and the restricted security profile.
void ApplyTrainerDefaults(const Settings& settings, int cluster_port, kube::Object& spec);

}  // namespace lockstep::controller
