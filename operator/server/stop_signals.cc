#include "operator/server/stop_signals.h"

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "base/signal_fd.h"

namespace lockstep::server {

StopSignals::StopSignals(Duration grace) {
  // A peer that hangs up must only fail its own connection.
  IgnoreBrokenPipes();
  // Never destroyed: the detached thread below runs until the process ends.
  auto* signals = new SignalFd({SIGTERM, SIGINT});
  std::thread([source = source_, signals, grace]() mutable {
    LogInfo("stopping", {{"signal", signals->Wait() == SIGTERM ? "SIGTERM" : "SIGINT"}});
    source.request_stop();
    const bool second = signals->Wait(grace).has_value();
    LogError(second ? "second signal: exiting at once" : "could not stop in time: exiting");
    std::_Exit(1);
  }).detach();
}

}  // namespace lockstep::server
