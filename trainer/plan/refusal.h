// Says why a job does not fit. Pure.
#pragma once

#include <string>

#include "trainer/plan/job_plan.h"

namespace lockstep::train {

// The reason and, with plan.largest, what would fit. `least` is the job's memory with one sample in
// each replica's batch. Requires: plan.memory does not fit.
std::string RefusalOf(const JobPlan& plan, const PlannedMemory& least);

}  // namespace lockstep::train
