// The request to stop that SIGTERM and SIGINT make, for a program that looks for it between steps.
#pragma once

#include <string>
#include <thread>

namespace lockstep {

// From now on these signals wait for InstallStopSignal, or for another SignalFd. A pod's process is
// to begin with that, since one that arrives before would end it, or be lost to a container's first
// process. Call it before any other thread is started.
void HoldStopSignals();

// From now on these signals no longer end the process. Call it once, before any other thread is
// started.
void InstallStopSignal();

// Returns true once one of them has arrived, and false without InstallStopSignal. Thread-safe.
bool StopSignalled();

// While it exists, one of them ends the process at once: for work that may take minutes, cannot
// look for it, on a volume that hangs for example, and leaves nothing behind that would be lost.
// Destructors do not run then. `during` says in the log what was under way.
class ExitAtStopSignal {
 public:
  ExitAtStopSignal(int exit_code, std::string during);

 private:
  std::jthread watch_;
};

}  // namespace lockstep
