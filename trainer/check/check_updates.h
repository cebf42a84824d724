// Optimizers, and what decides whether they run, against those of `reference`.
#pragma once

#include "trainer/check/check_report.h"

namespace lockstep::train {

// Of a thousand parameters; `large`: also of so many that each thread of a GPU updates several.
CheckGroup CheckOptimizers(Backend& backend, bool large);
CheckGroup CheckUpdateDecisions(Backend& backend);

}  // namespace lockstep::train
