// A replica's SIGTERM: noted, and read between steps.
#pragma once

namespace lockstep::train {

// SIGTERM and SIGINT set the flag from now on instead of ending the process.
void InstallStopSignal();

// True once one of them has come. Any thread.
bool StopSignalled();

}  // namespace lockstep::train
