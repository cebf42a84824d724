// Optimizers, and what decides whether they run, against those of other back ends.
#pragma once

#include "trainer/check/check_report.h"

namespace lockstep::train {

// Checks a thousand parameters; with `large`, also so many that a thread of a GPU updates several.
// LARS, LAMB and Muon have to be close to those of `reference`; the others must give the bits of
// `cpu`.
CheckGroup CheckOptimizers(Backend& backend, bool large);
// Against `reference`.
CheckGroup CheckUpdateDecisions(Backend& backend);

}  // namespace lockstep::train
