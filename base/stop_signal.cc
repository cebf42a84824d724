#include "base/stop_signal.h"

#include <atomic>
#include <csignal>

#include "base/signal_fd.h"

namespace lockstep {
namespace {

// Never destroyed: other threads may ask while the process is exiting.
SignalFd* g_signals = nullptr;
std::atomic<bool> g_stopped{false};

}  // namespace

void InstallStopSignal() {
  g_signals = new SignalFd({SIGTERM, SIGINT});
}

bool StopSignalled() {
  if (g_signals != nullptr && !g_stopped && g_signals->Next()) g_stopped = true;
  return g_stopped;
}

}  // namespace lockstep
