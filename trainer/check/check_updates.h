// Optimizers, and what decides whether they run, against those of `reference`.
#pragma once

#include "trainer/check/check_report.h"

namespace lockstep::train {

CheckGroup CheckOptimizers(Backend& backend);
CheckGroup CheckUpdateDecisions(Backend& backend);

}  // namespace lockstep::train
