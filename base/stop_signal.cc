#include "base/stop_signal.h"

#include <atomic>
#include <csignal>

namespace lockstep::train {
namespace {

std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler may only use lock-free atomics");

void NoteStop(int) {
  g_stop.store(true, std::memory_order_relaxed);
}

}  // namespace

void InstallStopSignal() {
  struct sigaction action{};
  action.sa_handler = &NoteStop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool StopSignalled() {
  return g_stop.load(std::memory_order_relaxed);
}

}  // namespace lockstep::train
