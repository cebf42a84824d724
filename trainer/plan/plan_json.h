// A plan as JSON: docs/cli.md has the meaning of each field. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "trainer/plan/job_plan.h"

namespace lockstep::train {

nlohmann::ordered_json PlanToJson(const JobPlan& plan);

}  // namespace lockstep::train
