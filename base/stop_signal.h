// The request to stop that SIGTERM and SIGINT make, for a program that looks for it between steps.
#pragma once

namespace lockstep {

// From now on these signals no longer end the process. Call it once, before any other thread is
// started.
void InstallStopSignal();

// Returns true once one of them has arrived, and false without InstallStopSignal. Thread-safe.
bool StopSignalled();

}  // namespace lockstep
