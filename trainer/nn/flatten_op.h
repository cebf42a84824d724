// Converts a backend's layout to dense N,F. Flattening usually needs no op: dense memory is already
// in order, and Dense, Dropout and ReLU accept any layout.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Requires: `backend` outlives the op.
std::unique_ptr<Op> MakeFlattenOp(const TensorDesc& x, Backend& backend);

}  // namespace lockstep::train
