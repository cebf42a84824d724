#include "operator/server/stop_signals.h"

#include <csignal>
#include <cstdlib>
#include <ctime>

#include "base/log.h"

namespace lockstep::server {
namespace {

timespec ToTimespec(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {.tv_sec = static_cast<time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((duration - seconds).count())};
}

}  // namespace

StopSignals::StopSignals(Duration grace) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A peer that hangs up must only fail its own connection.
  std::signal(SIGPIPE, SIG_IGN);
  // Detached: runs until the process ends.
  std::thread([source = source_, signals, grace]() mutable {
    int signal = 0;
    sigwait(&signals, &signal);
    LogInfo("stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
    source.request_stop();
    const timespec timeout = ToTimespec(grace);
    const bool second = sigtimedwait(&signals, nullptr, &timeout) > 0;
    LogError(second ? "second signal: exiting at once" : "could not stop in time: exiting");
    std::_Exit(1);
  }).detach();
}

}  // namespace lockstep::server
