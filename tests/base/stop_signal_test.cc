#include "base/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace lockstep {
namespace {

// Exits with the number of threads, of three, that see the signal's request.
[[noreturn]] void CountThreadsThatStopAt(int signal) {
  InstallStopSignal();
  if (StopSignalled()) std::_Exit(100);
  kill(getpid(), signal);  // not raise, which is to this thread alone
  int stopped = 0;
  for (int i = 0; i < 3; ++i) std::thread([&] { stopped += StopSignalled() ? 1 : 0; }).join();
  std::_Exit(stopped);
}

TEST(StopSignalTest, NothingIsInstalledUnasked) {
  EXPECT_FALSE(StopSignalled());
  sigset_t blocked;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
  for (const int signal : {SIGTERM, SIGINT}) {
    EXPECT_EQ(sigismember(&blocked, signal), 0) << signal << " would be kept for a descriptor";
  }
}

// In a process of its own each, because it lasts.
TEST(StopSignalTest, BothSignalsAskAllThreadsToStop) {
  EXPECT_EXIT(CountThreadsThatStopAt(SIGTERM), ::testing::ExitedWithCode(3), "");
  EXPECT_EXIT(CountThreadsThatStopAt(SIGINT), ::testing::ExitedWithCode(3), "");
}

// A thread that is in the middle of something for longer than the test's patience.
[[noreturn]] void BeBusy(bool stops_early) {
  InstallStopSignal();
  {
    const ExitAtStopSignal exits(42, "a long read");
    if (!stops_early) kill(getpid(), SIGTERM);
    if (!stops_early) std::this_thread::sleep_for(std::chrono::minutes(5));
  }
  kill(getpid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::_Exit(StopSignalled() ? 1 : 2);
}

TEST(StopSignalTest, OneEndsWhatCannotLookForItAndOnlyThat) {
  EXPECT_EXIT(BeBusy(/*stops_early=*/false), ::testing::ExitedWithCode(42), "a long read");
  EXPECT_EXIT(BeBusy(/*stops_early=*/true), ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace lockstep
