// The request to stop that SIGTERM and SIGINT make, for a program that looks for it between steps.
#pragma once

#include <string>
#include <thread>

namespace lockstep {

// From now on these signals wait for InstallStopSignal, or for another SignalFd. A pod's process is
// to begin with that, since one that arrives before would end it, or be lost to a container's first
// process. Call it before any other thread is started.
void HoldStopSignals();

// Blocks both signals, so that they no longer end the process. Requires: called once, before any
// other thread starts.
void InstallStopSignal();

// Returns true once one of them has arrived, and false without InstallStopSignal. Thread-safe.
bool StopSignalled();

// While an object of this class exists, either signal ends the process with `exit_code`, without
// running destructors. It is for work that may block for minutes (on a hanging volume, for
// example), cannot call StopSignalled, and has nothing to save yet. The log names the work by
// `during`. Without InstallStopSignal, the object does nothing.
class ExitAtStopSignal {
 public:
  ExitAtStopSignal(int exit_code, std::string during);

 private:
  std::jthread watch_;
};

}  // namespace lockstep
