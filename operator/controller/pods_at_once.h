// How many of a job's pods are created in parallel. Pure.
#pragma once

#include <cstddef>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// Returns how many creates fit into some 4 MiB of memory together, from the template to the
// server's answer, but at least one and at most `most`. Since the number of jobs reconciled at a
// time is bounded too, so is the memory of all creates under way, however large tenants make their
// templates.
std::size_t PodsAtOnce(const api::TrainingJob& job, std::size_t most);

}  // namespace lockstep::controller
