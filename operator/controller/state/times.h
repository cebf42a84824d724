// Times as API objects carry them. Pure.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace lockstep::controller {

// Returns `time` plus `seconds`, capped at the schema's maximum so that the result fits a Time.
Time SecondsAfter(Time time, std::int64_t seconds);

// Truncates to whole seconds, as API objects carry them.
Time WholeSeconds(Time time);

}  // namespace lockstep::controller
