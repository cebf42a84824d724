// Warnings about what a job asks for and does not get. Pure.
#pragma once

#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Adds to the plan whose status first notes the job, whichever rule made it, an event for each of:
// variables that the template sets itself, pods without TF_CONFIG, scheduling settings without a
// gang scheduler. Adds to the plan whose status first notes an edit an event if the edit asks for a
// number of workers that the job cannot have (kept_size), and one if existing pods do not get what
// the edit changes. The latter is left out if the plan starts a new attempt, which replaces all
// pods, or if the edit before left the same difference (Observed::ignored_edit).
void AddWarnings(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
