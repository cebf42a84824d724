// A job that Kueue admits: spec.suspend follows its Workload. Pure.
#pragma once

#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Before admission and after an eviction the job is suspended; it is resumed with what was granted
// (fewer workers, if it is elastic). A Workload that no longer fits the spec is created again.
// Nothing if Kueue has no part in the job, or nothing but the job's own rules has to be followed
// now. A job whose spec cannot be used loses its Workload once it is suspended and has no pods.
std::optional<Plan> PlanQueued(const Observed& observed);

// True of a job whose spec cannot be used if Kueue has not granted, or has taken back, what it runs
// on. Nobody can write spec.suspend into an object that cannot be read, so it is stopped without.
bool IsStoppedByKueue(const Observed& observed);

// Adds what Kueue wants to know of a job that runs or has ended.
void AddWorkloadConditions(const Observed& observed, Plan& plan);

}  // namespace lockstep::controller
