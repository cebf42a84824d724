// Waits, but not longer than until the process is asked to stop.
#pragma once

#include <functional>

#include "base/clock.h"

namespace lockstep {

// Returns after `duration` by `clock`, or soon after `stop_requested` returns true. Polls it: a
// signal handler cannot notify a condition variable.
void Pause(const Clock& clock, Duration duration, const std::function<bool()>& stop_requested);

}  // namespace lockstep
