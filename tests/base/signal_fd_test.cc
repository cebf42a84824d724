#include "base/signal_fd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/descriptor.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Restores which signals the thread has blocked, for the tests that follow in this process.
class SignalFdTest : public ::testing::Test {
 protected:
  SignalFdTest() { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }
  ~SignalFdTest() override { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

TEST_F(SignalFdTest, EachSignalIsReadOnceAndEndsNothing) {
  SignalFd signals({SIGTERM, SIGUSR1});
  EXPECT_EQ(signals.Next(), std::nullopt);
  raise(SIGUSR1);
  raise(SIGTERM);
  pollfd ready{signals.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1);
  std::vector<int> read;
  while (const std::optional<int> signal = signals.Next()) read.push_back(*signal);
  EXPECT_THAT(read, ::testing::UnorderedElementsAre(SIGUSR1, SIGTERM));
}

TEST_F(SignalFdTest, AnyThreadMayWait) {
  SignalFd signals({SIGTERM});
  std::optional<int> signal;
  std::thread waiter([&] { signal = signals.Wait(); });
  kill(getpid(), SIGTERM);
  waiter.join();
  EXPECT_EQ(signal, SIGTERM);
}

TEST_F(SignalFdTest, AWaitHasAnEnd) {
  SignalFd signals({SIGTERM});
  EXPECT_EQ(signals.Wait(0ms), std::nullopt);
  EXPECT_EQ(signals.Wait(5ms), std::nullopt);
  raise(SIGTERM);
  EXPECT_EQ(signals.Wait(1h), SIGTERM);
}

TEST_F(SignalFdTest, ASignalAfterItsEndDoesNotEndTheProcess) {
  EXPECT_EXIT(
      {
        {
          const SignalFd signals({SIGTERM});
        }
        raise(SIGTERM);
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(IgnoreBrokenPipesTest, AWriteWithoutAReaderFails) {
  const auto before = ::signal(SIGPIPE, SIG_DFL);
  IgnoreBrokenPipes();
  Pipe pipe = *MakePipe();
  pipe.read.Close();
  EXPECT_EQ(write(pipe.write.fd(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  ::signal(SIGPIPE, before);
}

TEST(IgnoreBrokenPipesTest, AHandlerStays) {
  void (*const handler)(int) = [](int) {};
  const auto before = ::signal(SIGPIPE, handler);
  IgnoreBrokenPipes();
  EXPECT_EQ(::signal(SIGPIPE, before), handler);
}

}  // namespace
}  // namespace lockstep
