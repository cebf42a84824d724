// An update of the parameters that then averages what it has updated.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Its slots are those of `update`, and then the exponential moving average of the values (Polyak
// and Juditsky, "Acceleration of stochastic approximation by averaging", 1992, with the weights of
// Keras' use_ema): average = decay * average + (1 - decay) * value. An update that does not apply
// does not move it. The owner of the slot sets what it begins with. `decay`: in (0, 1). Requires:
// `backend`, which has made `update`, outlives the result.
std::unique_ptr<OptimizerOp> MakeAveragedUpdate(std::unique_ptr<OptimizerOp> update, float decay,
                                                Backend& backend);

}  // namespace lockstep::train
