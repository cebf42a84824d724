// How many of a job's pods are created in parallel. Pure.
#pragma once

#include <cstddef>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// Returns how many pods may be created at a time so that these creates together take about 4 MiB of
// memory, which includes the template, the request and the response: at least 1, at most `most` (or
// 1 if that is less). Since the number of concurrent reconciles is bounded too, the memory of all
// creates in flight is bounded, however large the tenants' templates are.
std::size_t PodsAtOnce(const api::TrainingJob& job, std::size_t most);

}  // namespace lockstep::controller
