// Losses against those of `reference`.
#pragma once

#include "trainer/check/check_report.h"

namespace lockstep::train {

// Check a few rows; with `large`, also so many that a GPU divides them among blocks.
CheckGroup CheckCrossEntropy(Backend& backend, bool large);
CheckGroup CheckElementwiseLosses(Backend& backend, bool large);

}  // namespace lockstep::train
