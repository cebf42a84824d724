#include "operator/kube/rest/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/descriptor.h"
#include "tests/support/temp_directory.h"
#include "tests/support/time_limit.h"

namespace lockstep::kube {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> Shell(const std::string& script,
                                  Duration timeout = testing::Slowed(std::chrono::seconds(30))) {
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

TEST(RunProgramTest, ItIsKilledWithItsChildrenIfItHasClosedItsOutput) {
  const TempDirectory folder;
  // A machine with other work may need longer than the first times until the child is known.
  for (Duration timeout = std::chrono::milliseconds(500);
       !std::filesystem::exists(folder.At("id")) && timeout < std::chrono::seconds(30);
       timeout *= 3) {
    const auto begin = std::chrono::steady_clock::now();
    const auto text = Shell(fmt::format("sleep 60 >/dev/null & echo $! > {0}.new; mv {0}.new {0}; "
                                        "exec >&-; wait",
                                        folder.At("id")),
                            timeout);
    EXPECT_TRUE(absl::IsDeadlineExceeded(text.status())) << text.status();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::Slowed(std::chrono::seconds(30)));
  }
  const pid_t child = std::stoi(ReadTextFile(folder.At("id")));
  const auto lives = [child] {  // an orphan may stay as a zombie
    std::ifstream stat(fmt::format("/proc/{}/stat", child));
    std::string id, name, state;
    return stat >> id >> name >> state && state != "Z" && state != "X";
  };
  const auto deadline =
      std::chrono::steady_clock::now() + testing::Slowed(std::chrono::seconds(20));
  while (lives() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(lives());
}

TEST(RunProgramTest, OutputWithoutEndIsRefused) {
  EXPECT_THAT(Shell("exec yes").status().ToString(), HasSubstr("more than 1048576 bytes"));
}

}  // namespace
}  // namespace lockstep::kube
