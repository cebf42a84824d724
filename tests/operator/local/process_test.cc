#include "operator/local/process.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <thread>

#include "operator/local/guardian.h"
#include "operator/local/marked_processes.h"
#include "operator/local/plain_links.h"
#include "operator/local/process_kubelet.h"
#include "tests/support/planted_link.h"
#include "tests/support/temp_directory.h"
#include "tests/support/time_limit.h"

namespace lockstep::local {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::atomic<bool> pidfds_are_refused{false};

const auto kLong = testing::Slowed(std::chrono::seconds(20));

bool Lives(const std::string& mark) {
  for (const pid_t pid : ProcessIds()) {
    Mark found = Mark::kExecuting;
    while (found == Mark::kExecuting) found = MarkOf(pid, mark);
    if (found == Mark::kFound) return true;
  }
  return false;
}

class ProcessTest : public ::testing::Test {
 protected:
  ProcessSpec Shell(const std::string& script) {
    ProcessSpec spec;
    spec.argv = {"sh", "-c", script};
    spec.env = {{"PATH", "/usr/bin:/bin"}};
    spec.working_dir = folder_.path();
    spec.log_path = folder_.At("log");
    spec.marker = mark_;
    return spec;
  }
  // Starts a process and waits for its exit.
  ProcessExit Run(const ProcessSpec& spec) {
    const auto pid = processes_.Start(spec);
    EXPECT_TRUE(pid.ok()) << pid.status();
    return pid.ok() ? Next() : ProcessExit();
  }
  ProcessExit Next() {
    const SteadyTime deadline = std::chrono::steady_clock::now() + kLong;
    while (std::chrono::steady_clock::now() < deadline) {
      const std::vector<ProcessExit> exits = processes_.Poll(deadline);
      if (!exits.empty()) return exits.front();
    }
    ADD_FAILURE() << "no process ended";
    return {};
  }
  std::string Log() { return ReadTextFile(folder_.At("log")); }
  // Waits until a process has written a line to its log.
  void WaitForLog() {
    const SteadyTime deadline = std::chrono::steady_clock::now() + kLong;
    while (!std::filesystem::exists(folder_.At("log")) || !Log().ends_with('\n')) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
  }

  TempDirectory folder_;
  const std::string mark_ = MarkOfThisRun();
  SystemProcesses processes_;
};

TEST_F(ProcessTest, ReportsExitCodesAndSignals) {
  EXPECT_EQ(Run(Shell("exit 3")).code, 3);
  const ProcessExit killed = Run(Shell("kill -9 $$"));
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(killed.code, 128 + SIGKILL);
}

TEST_F(ProcessTest, HasItsOwnEnvironmentFolderAndLog) {
  ProcessSpec spec = Shell("echo $NAME $HOME-; pwd; echo problem >&2");
  spec.env["NAME"] = "value";
  EXPECT_EQ(Run(spec).code, 0);
  EXPECT_EQ(Log(), "value -\n" + folder_.path() + "\nproblem\n");
}

TEST_F(ProcessTest, ItsLogIsNotWrittenThroughALink) {
  WriteTextFile(folder_.At("victim"), "mine");
  for (const lockstep::testing::Link link : lockstep::testing::kLinks) {
    lockstep::testing::PlantLink(folder_.At("log"), folder_.At("victim"), link);
    const auto pid = processes_.Start(Shell("echo theirs"));
    EXPECT_THAT(pid.status().ToString(), HasSubstr("cannot write the log " + folder_.At("log")));
    EXPECT_EQ(ReadTextFile(folder_.At("victim")), "mine");
  }
}

TEST_F(ProcessTest, RunsOnTheCoresItWasGiven) {
  const int core = PermittedCpus().back();
  ProcessSpec spec = Shell("grep Cpus_allowed_list /proc/self/status");
  spec.cpus = {core};
  EXPECT_EQ(Run(spec).code, 0);
  EXPECT_THAT(Log(), HasSubstr(fmt::format("Cpus_allowed_list:\t{}\n", core)));
}

TEST_F(ProcessTest, AWaitOfFiftyDaysIsNotOver) {
  ASSERT_TRUE(processes_.Start(Shell("sleep 0.2; exit 4")).ok());
  const std::chrono::milliseconds wait(std::int64_t{1} << 32);  // more than an int holds
  const auto exits = processes_.Poll(std::chrono::steady_clock::now() + wait);
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].code, 4);
}

TEST_F(ProcessTest, ReportsWhyItCannotStart) {
  ProcessSpec spec = Shell("");
  spec.argv = {"no-such-program"};
  EXPECT_TRUE(absl::IsNotFound(processes_.Start(spec).status()));
  spec = Shell("");
  spec.working_dir = "/no/such/folder";
  EXPECT_THAT(std::string(processes_.Start(spec).status().message()),
              HasSubstr("working directory /no/such/folder"));
  EXPECT_THAT(Log(), StartsWith("lockstep: command not found: no-such-program\nlockstep: "));
  EXPECT_THAT(Log(), HasSubstr("working directory /no/such/folder"));
}

TEST_F(ProcessTest, OneThatCannotBeWatchedIsKilled) {
  pidfds_are_refused = true;
  const absl::Status status = processes_.Start(Shell("exec sleep 600")).status();
  pidfds_are_refused = false;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot watch the process"));
  EXPECT_FALSE(Lives(mark_));
  EXPECT_EQ(Run(Shell("exit 3")).code, 3);
}

TEST_F(ProcessTest, KillsADaemonThatLeftItsGroup) {
  const auto pid = processes_.Start(Shell("setsid sh -c 'echo up; exec sleep 100' & wait"));
  ASSERT_TRUE(pid.ok()) << pid.status();
  WaitForLog();
  processes_.SignalGroup(*pid, SIGKILL);
  EXPECT_EQ(Next().signal, SIGKILL);
  EXPECT_TRUE(Lives(mark_));
  processes_.KillLeftovers(*pid, mark_);
  EXPECT_FALSE(Lives(mark_));
}

// Each exec leaves a process without an environment for a moment.
TEST_F(ProcessTest, AProcessInTheMiddleOfAnExecIsNotPassedOver) {
  constexpr int kExecs = 500;
  const auto pid = processes_.Start(Shell(fmt::format(
      R"(export S='[ $1 = 0 ] || exec sh -c "$S" sh $(($1 - 1))'; exec sh -c "$S" sh {})",
      kExecs)));
  ASSERT_TRUE(pid.ok()) << pid.status();
  bool was_found = false, was_passed_over = false;
  while (processes_.Poll(std::chrono::steady_clock::now()).empty()) {
    const Mark mark = MarkOf(*pid, mark_);
    was_found |= mark == Mark::kFound;
    ASSERT_FALSE(was_passed_over && mark == Mark::kFound);
    was_passed_over |= mark == Mark::kNone;  // or it has just ended
  }
  EXPECT_TRUE(was_found);
}

TEST_F(ProcessTest, AGroupOfDeadOrphansIsNotAlive) {
  const auto pid = processes_.Start(Shell("sleep 100 & echo up; wait"));
  ASSERT_TRUE(pid.ok()) << pid.status();
  WaitForLog();
  EXPECT_TRUE(processes_.GroupIsAlive(*pid));
  processes_.Signal(*pid, SIGKILL);
  EXPECT_EQ(Next().signal, SIGKILL);
  processes_.SignalGroup(*pid, SIGTERM);
  const SteadyTime deadline = std::chrono::steady_clock::now() + kLong;
  while (processes_.GroupIsAlive(*pid)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
}

TEST(GuardianTest, EndsWhatAKilledProgramLeaves) {
  const TempDirectory folder;
  const std::string links = folder.At("links");
  const std::string mark = MarkOfThisRun();
  const pid_t program = fork();
  ASSERT_GE(program, 0);
  if (program == 0) {  // the program, which has a guardian and a grandchild, is killed
    const Guardian guardian(mark, links);
    PlainLinks of_program(links);
    if (!of_program.To("/a b").ok()) _exit(1);
    setenv(kMarkVariable, (mark + "pod/").c_str(), 1);
    if (std::system("setsid sleep 100 >/dev/null 2>&1 &") != 0) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(program, &status, 0), program);
  ASSERT_TRUE(WIFSIGNALED(status));
  const SteadyTime deadline = std::chrono::steady_clock::now() + kLong;
  while (Lives(mark) || std::filesystem::exists(links)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
}

TEST(GuardianTest, TheProgramOutlivesAGuardianThatWasKilled) {
  const pid_t program = fork();
  ASSERT_GE(program, 0);
  if (program == 0) {
    {
      const Guardian guardian(MarkOfThisRun(), "/no/such");
      siginfo_t ended{};
      for (const pid_t pid : ProcessIds()) {
        if (ParentOf(pid) != getpid()) continue;
        kill(pid, SIGKILL);
        waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
      }
      if (ended.si_status != SIGKILL) _exit(1);
    }
    _exit(0);
  }
  EXPECT_EQ(DescribeExit(WaitFor(program)), "exit code 0");
}

}  // namespace
}  // namespace lockstep::local

// Replaces the C library's syscall() for this program.
extern "C" __attribute__((visibility("default"))) long syscall(long number, ...) noexcept {
  const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  if (number == SYS_pidfd_open && lockstep::local::pidfds_are_refused) {
    errno = EMFILE;
    return -1;
  }
  va_list list;
  va_start(list, number);
  std::array<long, 6> args{};
  for (long& arg : args) arg = va_arg(list, long);
  va_end(list);
  return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
