#include "operator/local/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/new_file.h"
#include "base/status.h"
#include "operator/local/marked_processes.h"

namespace lockstep::local {
namespace {

absl::StatusOr<pid_t> LaunchInSession(const ProcessSpec& spec, int log) {
  LaunchSpec launch;
  LOCKSTEP_ASSIGN_OR_RETURN(launch.program, FindProgram(spec.argv.front(), spec.env));
  launch.argv = spec.argv;
  launch.env = spec.env;
  launch.env[kMarkVariable] = spec.marker;
  launch.working_dir = spec.working_dir;
  launch.stdio = {-1, log, log};
  launch.close_others = true;
  launch.cpus = spec.cpus;
  launch.new_session = true;
  launch.default_signals = true;
  launch.dies_with_thread = true;
  return Launch(launch);
}

absl::StatusOr<pid_t> LaunchWithLog(const ProcessSpec& spec) {
  const Descriptor log = OpenOwn(spec.log_path, O_WRONLY | O_APPEND, 0644);
  if (log.fd() < 0) return absl::ErrnoToStatus(errno, "cannot write the log " + spec.log_path);
  absl::StatusOr<pid_t> pid = LaunchInSession(spec, log.fd());
  // Whoever asks why the container did nothing looks there first.
  if (!pid.ok()) dprintf(log.fd(), "lockstep: %s\n", std::string(pid.status().message()).c_str());
  return pid;
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
  LOCKSTEP_CHECK(epoll_.fd() >= 0 && wake_.fd() >= 0, "epoll and eventfd: {}",
                 std::strerror(errno));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = 0;  // pids are positive, so 0 marks the wake-up
  epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, wake_.fd(), &event);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

SystemProcesses::~SystemProcesses() {
  for (const auto& [pid, fd] : pidfds_) {
    kill(-pid, SIGKILL);
    WaitFor(pid);
  }
}

absl::StatusOr<pid_t> SystemProcesses::Start(const ProcessSpec& spec) {
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t pid, LaunchWithLog(spec));
  absl::StatusOr<Descriptor> pidfd = WatchProcess(pid);
  if (!pidfd.ok()) {  // too many files are open
    kill(-pid, SIGKILL);
    WaitFor(pid);
    return pidfd.status();
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = pid;
  epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, pidfd->fd(), &event);
  pidfds_[pid] = *std::move(pidfd);
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
    WaitFor(pid);
    return true;
  });
}

std::vector<ProcessExit> SystemProcesses::Poll(std::optional<SteadyTime> deadline) {
  int timeout = -1;
  if (deadline) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
    timeout = static_cast<int>(
        std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
  }
  std::array<epoll_event, 64> events{};
  const int count =
      epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), timeout);
  std::vector<ProcessExit> exits;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = events[static_cast<std::size_t>(i)].data.fd;
    if (pid == 0) {
      std::uint64_t value = 0;
      [[maybe_unused]] const ssize_t got = read(wake_.fd(), &value, sizeof value);
      continue;
    }
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) continue;
    pidfds_.erase(pid);
    exits.push_back({pid, ExitCodeOf(status), WIFSIGNALED(status) ? WTERMSIG(status) : 0});
  }
  return exits;
}

void SystemProcesses::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof one);
}

}  // namespace lockstep::local
