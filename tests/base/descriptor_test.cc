#include "base/descriptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "base/launch.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(OpenStandardStreamsTest, ThoseThatAreClosedLeadToTheNullDevice) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    OpenStandardStreams();
    const bool writes = write(STDIN_FILENO, "a", 1) == 1 && write(STDERR_FILENO, "a", 1) == 1;
    const int next = open("/dev/null", O_RDONLY);
    _exit(writes && next > STDERR_FILENO ? 0 : 1);
  }
  EXPECT_EQ(ExitCodeOf(WaitFor(child)), 0);
}

TEST(WatchProcessTest, BecomesReadableWhenTheProcessHasEnded) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  ASSERT_TRUE(pipe.ok()) << pipe.status();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pipe->write.Close();
    char byte = 0;
    _exit(read(pipe->read.fd(), &byte, 1) == 0 ? 0 : 1);
  }
  const absl::StatusOr<Descriptor> watch = WatchProcess(child);
  ASSERT_TRUE(watch.ok()) << watch.status();
  pollfd ended{watch->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0);
  pipe->write.Close();
  EXPECT_EQ(poll(&ended, 1, -1), 1);
  EXPECT_EQ(ExitCodeOf(WaitFor(child)), 0);
}

TEST(WatchProcessTest, AProcessThatIsGoneIsNotFound) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  WaitFor(child);
  const absl::Status status = WatchProcess(child).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

TEST(WatchProcessTest, SaysThatThereAreNoDescriptors) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const Descriptor next(::dup(STDIN_FILENO));  // the lowest that is free
  ASSERT_GE(next.fd(), 0);
  rlimit none = limit;
  none.rlim_cur = static_cast<rlim_t>(next.fd()) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = WatchProcess(getpid()).status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot watch the process"));
}

}  // namespace
}  // namespace lockstep
