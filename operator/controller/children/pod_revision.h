// What pods are told when they are made, in short: a later edit of the job shows as a difference.
// Pure.
#pragma once

#include <string>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// "chief=1,worker=2": who stands in everybody's cluster spec. Also of jobs that are not elastic:
// theirs changes while they are suspended, which the operator may not have seen. Empty for jobs
// whose pods need not know when it changes: Independent, and elastic ones with ParameterServer (the
// sparse form) or scope Pod (the program finds its peers by itself, as torchrun does).
std::string ClusterShape(const api::TrainingJob& job);

// Differs when the role's pods would be made otherwise: its template, `training`, `strategy`.
std::string SpecHash(const api::TrainingJob& job, api::Role role);

}  // namespace lockstep::controller
