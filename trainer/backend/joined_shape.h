// The shape of the output of ops that join several inputs: the same on every backend.
#pragma once

#include "trainer/backend/op_spec.h"

namespace lockstep::train {

// Both return y's shape. Throw CheckFailure if there are fewer than two inputs or their shapes do
// not fit each other.
Shape ShapeOf(const AddSpec& spec);
Shape ShapeOf(const ConcatenateSpec& spec);

}  // namespace lockstep::train
