#include "trainer/supervisor/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace lockstep::train {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> MergedEnvironment(const std::map<std::string, std::string>& overrides) {
  std::vector<std::string> merged;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (!overrides.contains(entry.substr(0, entry.find('=')))) merged.push_back(entry);
  }
  for (const auto& [name, value] : overrides) merged.push_back(name + "=" + value);
  return merged;
}

// Makes only async-signal-safe calls: other threads may have held any lock at the fork.
[[noreturn]] void BecomeChild(const ChildSpec& spec, char* const* argv, char* const* envp,
                              pid_t parent, int error_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);  // the parent died before prctl
  for (const int fd : spec.fds) fcntl(fd, F_SETFD, 0);
  sigprocmask(SIG_SETMASK, &spec.signal_mask, nullptr);
  execve(argv[0], argv, envp);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(error_fd, &error, sizeof error);
  _exit(127);
}

}  // namespace

absl::StatusOr<pid_t> StartChild(const ChildSpec& spec) {
  LOCKSTEP_CHECK(getpid() == gettid(),
                 "children are bound to the thread that starts them: "
                 "start {} on the main thread",
                 spec.argv.front());
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> environment = MergedEnvironment(spec.env);
  const std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);
  int errors[2];  // closed by a successful exec; otherwise carries errno
  if (pipe2(errors, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "no pipe for a child process");
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) BecomeChild(spec, argv.data(), envp.data(), parent, errors[1]);
  const int fork_error = errno;
  close(errors[1]);
  int error = 0;
  ssize_t count = 0;
  if (child > 0) {
    do {
      count = read(errors[0], &error, sizeof error);
    } while (count < 0 && errno == EINTR);
  }
  close(errors[0]);
  if (child < 0) return absl::ErrnoToStatus(fork_error, "no new process");
  if (count == 0) return child;
  waitpid(child, nullptr, 0);
  return absl::ErrnoToStatus(error, fmt::format("cannot execute {}", spec.argv.front()));
}

int ExitCodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::string DescribeExit(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exit code {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

}  // namespace lockstep::train
