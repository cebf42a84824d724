// How many of a job's pods are made at a time. Pure.
#pragma once

#include <cstddef>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// At most `most`, and at least one; in between, as many as take some 4 MiB together, from the
// template to the server's answer. How many jobs are worked on at a time is bounded, and so is what
// all creates under way take, however large tenants make their templates.
std::size_t PodsAtOnce(const api::TrainingJob& job, std::size_t most);

}  // namespace lockstep::controller
