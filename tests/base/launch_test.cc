#include "base/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/descriptor.h"
#include "tests/support/temp_directory.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

LaunchSpec Shell(const std::string& script) {
  LaunchSpec spec;
  spec.program = "/bin/sh";
  spec.argv = {"sh", "-c", script};
  return spec;
}

struct Done {
  int status = 0;
  std::string output;
};

// Runs a child to its end.
Done Finish(LaunchSpec spec) {
  Pipe output = *MakePipe();
  spec.stdio[1] = output.write.fd();
  const auto child = Launch(spec);
  EXPECT_TRUE(child.ok()) << child.status();
  if (!child.ok()) return {};
  output.write.Close();
  Done done;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = read(output.read.fd(), bytes.data(), bytes.size())) > 0;) {
    done.output.append(bytes.data(), static_cast<std::size_t>(got));
  }
  done.status = WaitFor(*child);
  return done;
}

TEST(LaunchTest, ExitsAreCodesAndSignals) {
  const int left = Finish(Shell("exit 3")).status, killed = Finish(Shell("kill -9 $$")).status;
  EXPECT_EQ(ExitCodeOf(left), 3);
  EXPECT_EQ(DescribeExit(left), "exit code 3");
  EXPECT_EQ(ExitCodeOf(killed), 128 + SIGKILL);
  EXPECT_EQ(DescribeExit(killed), "signal 9 (Killed)");
}

TEST(LaunchTest, TheChildHasItsArgumentsEnvironmentAndFolder) {
  const TempDirectory folder;
  LaunchSpec spec = Shell("echo $0 $1 $NAME $HOME-; pwd");
  spec.argv.insert(spec.argv.end(), {"zero", "one"});
  spec.env = {{"NAME", "value"}};
  spec.working_dir = folder.path();
  EXPECT_EQ(Finish(std::move(spec)).output, "zero one value -\n" + folder.path() + "\n");
}

TEST(LaunchTest, AProgramIsRelativeToTheWorkingFolder) {
  const TempDirectory folder;
  WriteTextFile(folder.At("here"), "#!/bin/sh\necho here\n");
  std::filesystem::permissions(folder.At("here"), std::filesystem::perms::owner_all);
  LaunchSpec spec;
  spec.argv = {"./here"};
  spec.working_dir = folder.path();
  EXPECT_EQ(Finish(std::move(spec)).output, "here\n");
}

TEST(LaunchTest, AFailureNamesTheProgramOrTheFolder) {
  LaunchSpec spec;
  spec.argv = {"/no/such/program"};
  const absl::Status missing = Launch(spec).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.ToString(), HasSubstr("cannot execute /no/such/program: No such file"));
  spec.argv = {"/"};
  EXPECT_TRUE(absl::IsPermissionDenied(Launch(spec).status()));
  spec = Shell("");
  spec.working_dir = "/no/such/folder";
  EXPECT_THAT(Launch(spec).status().ToString(), HasSubstr("working directory /no/such/folder"));
  spec = Shell("");
  spec.stdio = {0, 1, 1 << 20};
  EXPECT_THAT(Launch(spec).status().ToString(), HasSubstr("the standard streams of /bin/sh"));
}

TEST(LaunchTest, StreamsMayTradePlaces) {
  Pipe output = *MakePipe(), errors = *MakePipe();
  LaunchSpec inner = Shell("echo output; echo problem >&2");
  // The test's own 1 and 2 become the child's 2 and 1.
  const Descriptor saved_1(dup(1)), saved_2(dup(2));
  dup2(errors.write.fd(), 1);
  dup2(output.write.fd(), 2);
  inner.stdio = {-1, 2, 1};
  const auto child = Launch(inner);
  dup2(saved_1.fd(), 1);
  dup2(saved_2.fd(), 2);
  ASSERT_TRUE(child.ok()) << child.status();
  output.write.Close();
  errors.write.Close();
  WaitFor(*child);
  std::array<char, 100> bytes{};
  EXPECT_EQ(read(output.read.fd(), bytes.data(), bytes.size()), 7);
  EXPECT_THAT(bytes.data(), StartsWith("output\n"));
  EXPECT_EQ(read(errors.read.fd(), bytes.data(), bytes.size()), 8);
  EXPECT_THAT(bytes.data(), StartsWith("problem\n"));
}

TEST(LaunchTest, TheNullDeviceIsEmptyAndSwallows) {
  LaunchSpec spec = Shell("cat; echo gone >&2 && echo done");
  spec.stdio = {-1, 1, -1};
  EXPECT_EQ(Finish(std::move(spec)).output, "done\n");
}

TEST(LaunchTest, OnlyTheNamedDescriptorsAreInherited) {
  const Descriptor inherited(fcntl(1, F_DUPFD, 100)), named(fcntl(1, F_DUPFD_CLOEXEC, 200)),
      not_named(fcntl(1, F_DUPFD_CLOEXEC, 300));
  LaunchSpec spec = Shell("for fd in 100 200 300; do [ -e /proc/$$/fd/$fd ] && echo $fd; done");
  spec.fds = {named.fd()};
  EXPECT_EQ(Finish(spec).output, "100\n200\n");
  spec.close_others = true;
  EXPECT_EQ(Finish(spec).output, "200\n");
}

TEST(LaunchTest, AStreamThatKeepsItsNumberStaysOpen) {
  const int flags = fcntl(0, F_GETFD);
  const bool was_closed = flags < 0;
  const Descriptor null(was_closed ? open("/dev/null", O_RDONLY) : -1);  // takes the number 0
  ASSERT_EQ(fcntl(0, F_SETFD, FD_CLOEXEC), 0);
  EXPECT_EQ(Finish(Shell("[ -e /proc/$$/fd/0 ] && echo open")).output, "open\n");
  if (!was_closed) fcntl(0, F_SETFD, flags);
}

// A blocked or ignored SIGTERM would leave the shell alive.
TEST(LaunchTest, NoSignalIsBlockedAndIgnoredOnesStayIgnoredUnlessAsked) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  LaunchSpec spec = Shell("kill -TERM $$; exit 1");
  EXPECT_EQ(ExitCodeOf(Finish(spec).status), 128 + SIGTERM);
  const auto handler = signal(SIGTERM, SIG_IGN);
  EXPECT_EQ(ExitCodeOf(Finish(spec).status), 1);
  spec.default_signals = true;
  EXPECT_EQ(ExitCodeOf(Finish(spec).status), 128 + SIGTERM);
  spec.blocked_signals = {SIGTERM};
  EXPECT_EQ(ExitCodeOf(Finish(spec).status), 1) << "the program must unblock it";
  signal(SIGTERM, handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(LaunchTest, ItRunsOnTheCoresItWasGiven) {
  cpu_set_t permitted;
  ASSERT_EQ(sched_getaffinity(0, sizeof permitted, &permitted), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &permitted)) ++cpu;
  LaunchSpec spec = Shell("while read key value; do echo $key $value; done </proc/self/status");
  spec.cpus = {cpu};
  EXPECT_THAT(Finish(std::move(spec)).output,
              HasSubstr("Cpus_allowed_list: " + std::to_string(cpu) + "\n"));
}

TEST(LaunchTest, ASessionOfItsOwnHasAGroupOfItsOwn) {
  LaunchSpec spec = Shell(
      "read pid name state parent group session rest </proc/self/stat; "
      "echo $((group == $$)) $((session == $$))");
  EXPECT_EQ(Finish(spec).output, "0 0\n");
  spec.new_session = true;
  EXPECT_EQ(Finish(spec).output, "1 1\n");
}

TEST(LaunchTest, ItDiesWithTheThreadThatStartedIt) {
  LaunchSpec spec;
  spec.program = "/bin/sleep";
  spec.argv = {"sleep", "20"};
  spec.dies_with_thread = true;
  absl::StatusOr<pid_t> child;
  std::thread([&] { child = Launch(spec); }).join();
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(ExitCodeOf(WaitFor(*child)), 128 + SIGKILL);
}

TEST(CurrentEnvironmentTest, HasWhatIsSet) {
  setenv("LOCKSTEP_TEST_EQUALS", "a=b", 1);
  EXPECT_EQ(CurrentEnvironment().at("LOCKSTEP_TEST_EQUALS"), "a=b");
  unsetenv("LOCKSTEP_TEST_EQUALS");
  EXPECT_FALSE(CurrentEnvironment().contains("LOCKSTEP_TEST_EQUALS"));
}

TEST(FindProgramTest, TheFirstExecutableFileOfThePathIsFound) {
  const TempDirectory folder;
  for (const char* name : {"a", "b", "c", "d"}) std::filesystem::create_directory(folder.At(name));
  std::filesystem::create_directory(folder.At("a/tool"));  // no file
  WriteTextFile(folder.At("b/tool"), "");                  // not executable
  for (const char* name : {"c/tool", "d/tool"}) {
    WriteTextFile(folder.At(name), "");
    std::filesystem::permissions(folder.At(name), std::filesystem::perms::owner_all);
  }
  const Environment env = {{"PATH", "/no/such/folder:" + folder.At("a") + ":" + folder.At("b") +
                                        ":" + folder.At("c") + ":" + folder.At("d")}};
  EXPECT_EQ(*FindProgram("tool", env), folder.At("c/tool"));
  EXPECT_EQ(*FindProgram("./tool", env), "./tool");
  const absl::Status missing = FindProgram("no-such-tool", env).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.ToString(), HasSubstr("command not found: no-such-tool"));
  EXPECT_TRUE(FindProgram("sh", {}).ok());
}

}  // namespace
}  // namespace lockstep
