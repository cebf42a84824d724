// The reference for tests: every op as plain loops over dense row-major memory, on one thread,
// without allocation in a step. Sums are in double, so that differences from another backend are
// that backend's rounding.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace lockstep::train
