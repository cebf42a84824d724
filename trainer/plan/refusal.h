// Says why a job does not fit. Pure.
#pragma once

#include <string>

#include "trainer/plan/job_plan.h"

namespace lockstep::train {

// The reason and, with plan.largest, what would fit. `least` is a replica's memory with one sample
// in its batch. Requires: plan.memory does not fit.
std::string RefusalOf(const JobPlan& plan, const ReplicaMemory& least);

}  // namespace lockstep::train
