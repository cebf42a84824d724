// Optimizers, and what decides whether they run, against those of other back ends.
#pragma once

#include "trainer/check/check_report.h"

namespace lockstep::train {

// Of a thousand parameters; `large`: also of so many that each thread of a GPU updates several.
// LARS and LAMB have to be close to those of `reference`; the others must give the bits of `cpu`.
CheckGroup CheckOptimizers(Backend& backend, bool large);
// Against `reference`.
CheckGroup CheckUpdateDecisions(Backend& backend);

}  // namespace lockstep::train
