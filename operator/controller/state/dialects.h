// The frameworks whose variables a replica's program reads. Pure.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::controller {

// All of their variables together are over half of a small pod, which the API server stores and
// compares (with each variable's field owner) at every change; and TF_CONFIG grows with the job.
struct Dialects {
  bool lockstep = false, tensorflow = false, torch = false, jax = false;
};

// A container name that does not tell the framework gets the variables of all frameworks.
Dialects DialectsOf(const api::TrainingJob& job, api::Role role);

}  // namespace lockstep::controller
