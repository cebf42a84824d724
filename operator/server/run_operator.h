// The operator process: client, leader election, JobController, probes and metrics.
#pragma once

#include <stop_token>

#include "base/clock.h"
#include "operator/server/flags.h"

namespace lockstep::server {

// Blocks until `stop`; returns the exit code, 1 if the operator cannot start. Exits the process
// with 1 when the lease is lost: this process must not write while another leads.
int RunOperator(const Flags& flags, const Clock& clock, std::stop_token stop);

}  // namespace lockstep::server
