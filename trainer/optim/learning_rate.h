// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "api/v1/training_job.h"

namespace lockstep::train {

// Returns the rate of the update from `step` to `step` + 1 steps done, of `total_steps`:
//   warm-up   base * (step + 1) / warmup_steps for the first warmup_steps updates (never 0)
//   constant  base afterwards
//   cosine    from base to base * final_fraction at the last update (Loshchilov and Hutter, "SGDR",
//             2017, one cycle); beyond total_steps the rate stays at its last value.
double LearningRateAt(const api::LearningRateScheduleSpec& schedule, double base, std::int64_t step,
                      std::int64_t total_steps);

}  // namespace lockstep::train
