// What every plan gets, whichever rule made it: the state, how long its status may wait, and when
// its counts or its progress are due. Pure.
#pragma once

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Returns the plan with status.state, status_can_wait, only_counts and requeue_after. Defers counts
// and progress to Settings::status_interval after the last write, but not the report of a program
// that it has done all of its work. A job whose spec is unusable says so in its status. Plans of a
// job that has ended are returned as they are.
Plan Finalized(const Observed& observed, Plan plan);

}  // namespace lockstep::controller
