// Losses against those of `reference`.
#pragma once

#include "trainer/check/check_report.h"

namespace lockstep::train {

CheckGroup CheckCrossEntropy(Backend& backend);
CheckGroup CheckElementwiseLosses(Backend& backend);

}  // namespace lockstep::train
