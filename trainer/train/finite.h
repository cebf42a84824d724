// Detects infinities and NaNs. Pure.
#pragma once

#include <span>

namespace lockstep::train {

bool AllFinite(std::span<const float> values);

}  // namespace lockstep::train
