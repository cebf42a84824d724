#include "base/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/status.h"

namespace lockstep {
namespace {

enum Stage : int { kStreams, kDirectory, kExecute };
struct ChildError {
  int stage = 0;
  int error = 0;
};

// Everything that the child uses between fork and exec, prepared before the fork.
struct Prepared {
  std::vector<std::string> argv_text, env_text;
  std::vector<char*> argv, env;
  cpu_set_t cpus;
  sigset_t blocked;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Prepared Prepare(const LaunchSpec& spec) {
  Prepared prepared;
  prepared.argv_text = spec.argv;
  for (const auto& [name, value] : spec.env) prepared.env_text.push_back(name + "=" + value);
  prepared.argv = Pointers(prepared.argv_text);
  prepared.env = Pointers(prepared.env_text);
  CPU_ZERO(&prepared.cpus);
  for (const int cpu : spec.cpus) CPU_SET(static_cast<std::size_t>(cpu), &prepared.cpus);
  sigemptyset(&prepared.blocked);
  for (const int signal : spec.blocked_signals) sigaddset(&prepared.blocked, signal);
  return prepared;
}

const std::string& ProgramOf(const LaunchSpec& spec) {
  return spec.program.empty() ? spec.argv.front() : spec.program;
}

// Makes `stdio` the descriptors 0, 1 and 2. All are copied above them first, because one may be the
// source of another.
bool SetStreams(const std::array<int, 3>& stdio) {
  std::array<int, 3> copies{};
  for (std::size_t i = 0; i < stdio.size(); ++i) {
    const int source = stdio[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : stdio[i];
    copies[i] = std::cmp_equal(source, i) ? source : fcntl(source, F_DUPFD_CLOEXEC, 3);
    if (copies[i] < 0) return false;
  }
  for (int i = 0; i < 3; ++i) {
    const int copy = copies[static_cast<std::size_t>(i)];
    // dup2 clears close-on-exec, but does nothing if the numbers are equal.
    if ((copy == i ? fcntl(i, F_SETFD, 0) : dup2(copy, i)) < 0) return false;
  }
  return true;
}

// Runs in the child. Makes only async-signal-safe calls: other threads may have held any lock at
// the fork.
[[noreturn]] void BecomeProgram(const LaunchSpec& spec, const Prepared& prepared, pid_t parent,
                                int error_pipe) {
  // Out of the way of the streams.
  const int errors = error_pipe > 2 ? error_pipe : fcntl(error_pipe, F_DUPFD_CLOEXEC, 3);
  const auto fail = [errors](Stage stage) {
    const ChildError error{stage, errno};
    [[maybe_unused]] const ssize_t written = write(errors, &error, sizeof error);
    _exit(127);
  };
  if (spec.new_session) setsid();
  if (spec.dies_with_thread) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the prctl
  }
  if (spec.default_signals) {
    for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, &prepared.blocked, nullptr);
  if (!spec.cpus.empty()) sched_setaffinity(0, sizeof prepared.cpus, &prepared.cpus);
  if (spec.close_others) close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int fd : spec.fds) fcntl(fd, F_SETFD, 0);
  if (!SetStreams(spec.stdio)) fail(kStreams);
  if (!spec.working_dir.empty() && chdir(spec.working_dir.c_str()) != 0) fail(kDirectory);
  execve(ProgramOf(spec).c_str(), prepared.argv.data(), prepared.env.data());
  fail(kExecute);
  _exit(127);
}

absl::Status Explain(const LaunchSpec& spec, const ChildError& error) {
  switch (error.stage) {
    case kStreams:
      return absl::ErrnoToStatus(error.error,
                                 fmt::format("the standard streams of {}", ProgramOf(spec)));
    case kDirectory:
      return absl::ErrnoToStatus(error.error, "working directory " + spec.working_dir);
    default:
      return absl::ErrnoToStatus(error.error, "cannot execute " + ProgramOf(spec));
  }
}

bool IsExecutableFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

Environment CurrentEnvironment() {
  Environment env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

absl::StatusOr<std::string> FindProgram(const std::string& name, const Environment& env) {
  if (name.find('/') != std::string::npos) return name;
  const auto path = env.find("PATH");
  std::istringstream folders(path == env.end() ? "/usr/bin:/bin" : path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? std::string(".") : folder) + "/" + name;
    if (IsExecutableFile(candidate)) return std::filesystem::absolute(candidate).string();
  }
  return absl::NotFoundError("command not found: " + name);
}

absl::StatusOr<pid_t> Launch(const LaunchSpec& spec) {
  LOCKSTEP_CHECK(!spec.argv.empty(), "no argv for {}", spec.program);
  const Prepared prepared = Prepare(spec);
  // A successful exec closes it; otherwise it carries a ChildError.
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) BecomeProgram(spec, prepared, parent, errors.write.fd());
  if (child < 0) return absl::ErrnoToStatus(errno, "no new process");
  errors.write.Close();
  ChildError error;
  ssize_t got = 0;
  do {
    got = read(errors.read.fd(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof error) return child;
  WaitFor(child);
  return Explain(spec, error);
}

absl::Status StartAgain(const Environment& env, const std::vector<int>& fds) {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> argv_text;
  for (std::string argument; std::getline(file, argument, '\0');) argv_text.push_back(argument);
  if (argv_text.empty()) return absl::UnavailableError("/proc/self/cmdline cannot be read");
  std::vector<std::string> env_text;
  for (const auto& [name, value] : env) env_text.push_back(fmt::format("{}={}", name, value));
  const std::vector<char*> argv = Pointers(argv_text);
  const std::vector<char*> variables = Pointers(env_text);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int fd : fds) fcntl(fd, F_SETFD, 0);
  // By its path if the file is still there. By the link, the kernel would name the process "exe".
  std::error_code unreadable;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", unreadable).string();
  if (!unreadable) execve(program.c_str(), argv.data(), variables.data());
  execve("/proc/self/exe", argv.data(), variables.data());
  return absl::ErrnoToStatus(errno, fmt::format("cannot execute {} again", argv_text.front()));
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

int ExitCodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::string DescribeExit(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exit code {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

}  // namespace lockstep
