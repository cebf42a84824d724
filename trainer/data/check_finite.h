// Floats of data files that would end a training as diverged.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace lockstep::train {

// DataLoss: says which of the sample's floats is infinite or NaN. Requires: a whole number of
// floats.
absl::Status CheckFinite(std::span<const std::uint8_t> sample);

}  // namespace lockstep::train
