#include "operator/kube/rest/run_program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/descriptor.h"

namespace lockstep::kube {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> Shell(const std::string& script,
                                  Duration timeout = std::chrono::seconds(30)) {
  return RunProgram("sh", {"-c", script}, {{"GREETING", "hello"}}, timeout);
}

TEST(RunProgramTest, GivesWhatIsPrintedAndSetsTheEnvironment) {
  const auto text = Shell("printf %s \"$GREETING, $HOME\"; cat");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "hello, " + std::string(std::getenv("HOME") ? std::getenv("HOME") : ""));
}

TEST(RunProgramTest, AMissingProgramIsNotFound) {
  const auto text = RunProgram("no-such-program-here", {}, {}, std::chrono::seconds(1));
  EXPECT_TRUE(absl::IsNotFound(text.status())) << text.status();
  EXPECT_THAT(text.status().ToString(), HasSubstr("no-such-program-here"));
}

TEST(RunProgramTest, AFailureNamesItsExit) {
  EXPECT_THAT(Shell("exit 3").status().ToString(), HasSubstr("sh: ended with exit code 3"));
  EXPECT_THAT(Shell("kill -9 $$").status().ToString(),
              HasSubstr("sh: ended with signal 9 (Killed)"));
}

TEST(RunProgramTest, ItInheritsNoConnection) {
  const Descriptor connection(fcntl(0, F_DUPFD, 100));  // not close-on-exec
  EXPECT_EQ(*Shell("[ -e /proc/$$/fd/100 ] || echo closed"), "closed\n");
}

TEST(RunProgramTest, ItIsKilledAfterItsTime) {
  const auto text = Shell("exec sleep 600", std::chrono::milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(text.status())) << text.status();
}

TEST(RunProgramTest, OutputWithoutEndIsRefused) {
  EXPECT_THAT(Shell("exec yes").status().ToString(), HasSubstr("more than 1048576 bytes"));
}

}  // namespace
}  // namespace lockstep::kube
