// Records a replica's SIGTERM, for the training loop to check between steps.
#pragma once

namespace lockstep::train {

// From now on SIGTERM and SIGINT set a flag instead of ending the process.
void InstallStopSignal();

// Returns true once one of them has arrived. Thread-safe.
bool StopSignalled();

}  // namespace lockstep::train
