// Brings a back end's layout to dense N,F. Most flattening needs no op: dense memory is already
// right, and Dense, Dropout and ReLU take any layout.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// `backend` outlives the op.
std::unique_ptr<Op> MakeFlattenOp(const TensorDesc& x, Backend& backend);

}  // namespace lockstep::train
