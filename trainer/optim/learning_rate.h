// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "api/v1/training_job.h"

namespace lockstep::train {

// Returns the rate of the update from `step` to `step` + 1 steps done, of `total_steps`. The first
// warmup_steps updates use base * (step + 1) / warmup_steps (never 0). With n = step - warmup_steps
// and p = n / (the last update's n), at most 1, the later ones use
//   constant     base
//   cosine       final + (base - final) * (1 + cos(pi * p)) / 2, final = base * final_fraction
//                (Loshchilov and Hutter, "SGDR", 2017, one cycle)
//   polynomial   final + (base - final) * (1 - p)^power, as Keras' PolynomialDecay
//   step         base * factor^floor(n / every_steps), as Keras' ExponentialDecay with a staircase
//   exponential  base * factor^(n / every_steps), the same without
// So the first of them uses `base`, and the last update of cosine and polynomial `final`; beyond
// total_steps their rate stays at that.
//   one cycle    from base / 25 up to `base`, at 0.3 * total_steps - 1, and down to base / 250,000
//                at the last update, each along half a cosine: PyTorch's OneCycleLR with its
//                defaults, except that the momentum stays (Smith and Topin, "Super-Convergence",
//                2018)
// Requires: every_steps is set with step and exponential.
double LearningRateAt(const api::LearningRateScheduleSpec& schedule, double base, std::int64_t step,
                      std::int64_t total_steps);

}  // namespace lockstep::train
