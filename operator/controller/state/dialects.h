// The frameworks whose variables a replica's program reads. Pure.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::controller {

// A pod gets only the variables that its program reads. The variables of all frameworks would be
// over half of a small pod's bytes, which the API server stores and compares (with each variable's
// field owner) at every change, and TF_CONFIG grows with the job.
struct Dialects {
  bool lockstep = false, tensorflow = false, torch = false, jax = false;
};

// Returns the variables that the pods of `role` get: Lockstep's and TensorFlow's for the bundled
// trainer; else those of the framework that the main container is named after, or all of them if
// its name is no framework's. A replica that trains alone gets Lockstep's, too. Requires: the job
// has the role, and its template if it does not use the bundled trainer.
Dialects DialectsOf(const api::TrainingJob& job, api::Role role);

}  // namespace lockstep::controller
