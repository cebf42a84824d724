// One replica's process, as its supervisor sees it: how it is launched, whether another may follow
// it, and what it has reported. Pure, but for the environment that ReplicaLaunch copies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/v1/variants.h"
#include "base/clock.h"
#include "base/launch.h"
#include "trainer/identity/identity.h"
#include "trainer/observe/metrics.h"

namespace lockstep::train {

struct ReplicaStart {
  std::vector<std::string> command;
  int local_rank = 0;
  std::int64_t number = 1;  // among the processes that the pod has run for this place
  Time pod_started;
  int rendezvous_port = 0;  // of this pod's own; 0: another pod leads
};

// Returns how to launch the process: with this process's environment and what tells it its place.
// `metrics_fd`: the end of a pipe that it writes its metrics to, open until it is launched.
LaunchSpec ReplicaLaunch(const Identity& identity, const ReplicaStart& start, int metrics_fd);

// Returns the exit code of a pod whose processes have ended with these. Those that were asked to
// stop normally end with kExitPreempted or 0, so any other code takes precedence.
int CodeOfAll(const std::vector<int>& codes);

// Returns true if a new process in the same pod may get further than one that ended with the code.
bool MayPassInPlace(int exit_code);

// Returns the step that a process has reached by its own work; 0: none yet. The leading process of
// a run with parameter servers reports steps that others have made.
std::int64_t OwnStep(const ReplicaMetrics& metrics);
std::int64_t OwnStep(const ServerMetrics& metrics);
std::int64_t OwnStep(const EvaluatorMetrics& metrics);

// Returns the result of variant `index`, whose process reported `last` at its end.
api::VariantResult ResultOf(const ReplicaMetrics& last, int index);

}  // namespace lockstep::train
