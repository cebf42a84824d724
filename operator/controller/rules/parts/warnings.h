// Warnings about what a job asks for and does not get. Pure.
#pragma once

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Adds an event for each setting that has no effect, to the plan whose status first notes the job,
// whichever rule made it; and one for an edit that does not reach the existing pods, to the plan
// whose status first notes the edit, unless that plan replaces all pods or an event has told of the
// same difference since these pods were made.
void AddWarnings(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
