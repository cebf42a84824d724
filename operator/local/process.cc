#include "operator/local/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>

#include "base/check.h"
#include "operator/local/marked_processes.h"

namespace lockstep::local {
namespace {

enum Stage : int { kLog, kDirectory, kExecute };
struct ChildError {
  int stage = 0;
  int error = 0;
};

// Everything that the child uses between fork and exec, prepared before the fork.
struct Prepared {
  std::string executable;
  std::vector<char*> argv;
  std::vector<std::string> env_text;
  std::vector<char*> envp;
  cpu_set_t cpus;
  bool pin = false;
};

bool IsExecutableFile(const std::string& path) {
  return access(path.c_str(), X_OK) == 0;
}

// Searches like execvp, with the child's own PATH; resolves relative names against its working
// folder.
std::optional<std::string> FindExecutable(const ProcessSpec& spec) {
  const std::string& name = spec.argv.front();
  if (name.find('/') != std::string::npos) {
    const std::string path = name.front() == '/' ? name : spec.working_dir + "/" + name;
    return access(path.c_str(), F_OK) == 0 ? std::optional(path) : std::nullopt;
  }
  const auto path = spec.env.find("PATH");
  std::istringstream folders(path == spec.env.end() ? "/usr/bin:/bin" : path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? std::string(".") : folder) + "/" + name;
    if (IsExecutableFile(candidate)) return candidate;
  }
  return std::nullopt;
}

Prepared Prepare(const ProcessSpec& spec, std::string executable) {
  Prepared prepared;
  prepared.executable = std::move(executable);
  for (const std::string& arg : spec.argv) prepared.argv.push_back(const_cast<char*>(arg.c_str()));
  prepared.argv.push_back(nullptr);
  for (const auto& [key, value] : spec.env) prepared.env_text.push_back(key + "=" + value);
  prepared.env_text.push_back(fmt::format("{}={}", kMarkVariable, spec.marker));
  for (std::string& text : prepared.env_text) prepared.envp.push_back(text.data());
  prepared.envp.push_back(nullptr);
  CPU_ZERO(&prepared.cpus);
  for (const int cpu : spec.cpus) CPU_SET(static_cast<std::size_t>(cpu), &prepared.cpus);
  prepared.pin = !spec.cpus.empty();
  return prepared;
}

// Runs in the child: async-signal-safe calls only.
[[noreturn]] void RunChild(const ProcessSpec& spec, const Prepared& prepared, pid_t parent,
                           int error_pipe) {
  const auto fail = [&](Stage stage) {
    const ChildError error{stage, errno};
    [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof error);
    _exit(127);
  };
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the prctl
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (prepared.pin) sched_setaffinity(0, sizeof prepared.cpus, &prepared.cpus);
  const int null = open("/dev/null", O_RDONLY);
  const int log = open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (null < 0 || log < 0) fail(kLog);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (chdir(spec.working_dir.c_str()) != 0) fail(kDirectory);
  execve(prepared.executable.c_str(), prepared.argv.data(), prepared.envp.data());
  fail(kExecute);
  _exit(127);
}

absl::Status Explain(const ProcessSpec& spec, const ChildError& error) {
  const char* why = std::strerror(error.error);
  switch (error.stage) {
    case kLog:
      return absl::InternalError(fmt::format("cannot write the log {}: {}", spec.log_path, why));
    case kDirectory:
      return absl::FailedPreconditionError(
          fmt::format("working directory {}: {}", spec.working_dir, why));
    default:
      return absl::FailedPreconditionError(fmt::format("exec {}: {}", spec.argv.front(), why));
  }
}

// Returns this program's children: the processes that it started, and their orphans.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const pid_t pid : ProcessIds()) {
    if (ParentOf(pid) == getpid()) children.push_back(pid);
  }
  return children;
}

}  // namespace

SystemProcesses::SystemProcesses()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LOCKSTEP_CHECK(epoll_ >= 0 && wake_ >= 0, "epoll and eventfd: {}", std::strerror(errno));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = 0;  // pids are positive, so 0 marks the wake-up
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

SystemProcesses::~SystemProcesses() {
  for (const auto& [pid, fd] : pidfds_) {
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(fd);
  }
  close(wake_);
  close(epoll_);
}

absl::StatusOr<pid_t> SystemProcesses::Start(const ProcessSpec& spec) {
  std::optional<std::string> executable = FindExecutable(spec);
  if (!executable) {
    return absl::NotFoundError(fmt::format("command not found: {}", spec.argv.front()));
  }
  const Prepared prepared = Prepare(spec, *std::move(executable));
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return absl::InternalError(fmt::format("pipe: {}", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) RunChild(spec, prepared, parent, pipe_ends[1]);
  close(pipe_ends[1]);
  if (pid < 0) {
    close(pipe_ends[0]);
    return absl::ResourceExhaustedError(fmt::format("fork: {}", std::strerror(errno)));
  }
  ChildError error;
  const ssize_t got = read(pipe_ends[0], &error, sizeof error);
  close(pipe_ends[0]);
  if (got == sizeof error) {
    waitpid(pid, nullptr, 0);
    return Explain(spec, error);
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  LOCKSTEP_CHECK(pidfd >= 0, "pidfd_open({}): {}", pid, std::strerror(errno));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = pid;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, pidfd, &event);
  pidfds_[pid] = pidfd;
  return pid;
}

void SystemProcesses::Signal(pid_t pid, int signal) {
  if (pidfds_.contains(pid)) kill(pid, signal);
}

void SystemProcesses::SignalGroup(pid_t group, int signal) {
  kill(-group, signal);
}

bool SystemProcesses::GroupIsAlive(pid_t group) {
  // Orphans of the group are our children, and dead ones count as alive until waited for.
  while (!pidfds_.contains(group) && waitpid(-group, nullptr, WNOHANG) > 0) {
  }
  return kill(-group, 0) == 0;
}

void SystemProcesses::KillLeftovers(pid_t group, const std::string& marker) {
  kill(-group, SIGKILL);
  // Orphans become our children as their parents die.
  const auto orphans = [this] {
    std::vector<pid_t> ids = Children();
    std::erase_if(ids, [this](pid_t pid) {
      return pidfds_.contains(pid) || waitpid(pid, nullptr, WNOHANG) == pid;
    });
    return ids;
  };
  KillMarked(marker, orphans, [](pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return true;
  });
}

std::vector<ProcessExit> SystemProcesses::Poll(std::optional<SteadyTime> deadline) {
  int timeout = -1;
  if (deadline) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
    timeout = static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout);
  std::vector<ProcessExit> exits;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = events[static_cast<std::size_t>(i)].data.fd;
    if (pid == 0) {
      std::uint64_t value = 0;
      [[maybe_unused]] const ssize_t got = read(wake_, &value, sizeof value);
      continue;
    }
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) continue;
    close(pidfds_[pid]);
    pidfds_.erase(pid);
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    exits.push_back({pid, signal != 0 ? 128 + signal : WEXITSTATUS(status), signal});
  }
  return exits;
}

void SystemProcesses::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

}  // namespace lockstep::local
