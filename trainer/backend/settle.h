#pragma once

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Synchronize for destructors, because memory must outlive the work that is queued on it. A device
// that has failed does no more work; its error is logged, as it has been thrown before.
void Settle(Backend& backend) noexcept;

}  // namespace lockstep::train
