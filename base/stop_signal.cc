#include "base/stop_signal.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <utility>

#include "base/log.h"
#include "base/signal_fd.h"

namespace lockstep {
namespace {

// Never destroyed: other threads may ask while the process is exiting.
SignalFd* g_signals = nullptr;
std::atomic<bool> g_stopped{false};

constexpr auto kPoll = std::chrono::milliseconds(50);

}  // namespace

void HoldStopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void InstallStopSignal() {
  g_signals = new SignalFd({SIGTERM, SIGINT});
}

bool StopSignalled() {
  if (g_signals != nullptr && !g_stopped && g_signals->Next()) g_stopped = true;
  return g_stopped;
}

ExitAtStopSignal::ExitAtStopSignal(int exit_code, std::string during)
    : watch_([exit_code, during = std::move(during)](const std::stop_token& stop) {
        std::mutex mutex;  // nothing but the end is waited for
        std::condition_variable_any ended;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          if (StopSignalled()) {
            LogInfo("asked to stop: there is nothing to save yet",
                    {{"during", during}, {"exitCode", exit_code}});
            std::_Exit(exit_code);  // other threads are in the middle of something
          }
          ended.wait_for(lock, stop, kPoll, [] { return false; });
        }
      }) {}

}  // namespace lockstep
