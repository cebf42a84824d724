// Says why a job does not fit. Pure.
#pragma once

#include <string>

#include "trainer/plan/job_plan.h"

namespace lockstep::train {

// The reason and, with plan.largest, what would fit. `least` is the memory of the job with one
// sample per replica. Requires: neither plan.memory nor, if no batch fits, `least` fits.
std::string RefusalOf(const JobPlan& plan, const PlannedMemory& least);

}  // namespace lockstep::train
