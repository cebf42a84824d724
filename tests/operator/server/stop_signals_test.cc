#include "operator/server/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace lockstep::server {
namespace {

constexpr Duration kLong = std::chrono::hours(1);

// Returns once the token asks to stop.
void SendAndStop(const StopSignals& signals, int signal) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  kill(getpid(), signal);
  stopped.wait(lock, signals.token(), [] { return false; });
}

// Each runs in a process of its own, since the signals stay blocked.
[[noreturn]] void StopInTime() {
  const StopSignals signals(kLong);
  if (signals.token().stop_requested()) std::_Exit(100);
  SendAndStop(signals, SIGINT);
  std::_Exit(3);
}

[[noreturn]] void HangAfter(Duration grace, bool second_signal) {
  const StopSignals signals(grace);
  SendAndStop(signals, SIGTERM);
  if (second_signal) kill(getpid(), SIGTERM);
  while (true) pause();
}

TEST(StopSignalsTest, TheFirstSignalRequestsAStop) {
  EXPECT_EXIT(StopInTime(), ::testing::ExitedWithCode(3), "SIGINT");
}

TEST(StopSignalsTest, ASecondSignalEndsTheProcessAtOnce) {
  EXPECT_EXIT(HangAfter(kLong, true), ::testing::ExitedWithCode(1), "second signal");
}

TEST(StopSignalsTest, TheGracePeriodEndsTheProcess) {
  EXPECT_EXIT(HangAfter(std::chrono::milliseconds(1), false), ::testing::ExitedWithCode(1),
              "could not stop in time");
}

}  // namespace
}  // namespace lockstep::server
