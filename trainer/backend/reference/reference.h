// The oracle: every op as plain loops over dense row-major memory, one thread, no allocation in a
// step. Sums run in double, so that what differs from another back end is that back end's rounding.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace lockstep::train
