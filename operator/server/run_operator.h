// The operator's process: client, leader election, JobController, probes and metrics.
#pragma once

#include <stop_token>

#include "base/clock.h"
#include "operator/server/flags.h"

namespace lockstep::server {

// Blocks until `stop`; returns the exit code. The process ends by itself, with 1, when the lease is
// lost: whoever leads next must not meet writes of this one.
int RunOperator(const Flags& flags, const Clock& clock, std::stop_token stop);

}  // namespace lockstep::server
