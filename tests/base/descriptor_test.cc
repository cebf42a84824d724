#include "base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/launch.h"

namespace lockstep {
namespace {

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

}  // namespace
}  // namespace lockstep
