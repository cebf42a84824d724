// Runs the ranks of a group as threads of the test, or as processes that it may kill.
#pragma once

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace lockstep::train {

// Calls body(rank) in `size` threads and waits for all of them.
inline void SpawnThreads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

// Calls body(rank) in `size` forked processes, which use its return value as their exit code. The
// test's process must have no other threads. No process outlives this object or the test.
class ForkedRanks {
 public:
  ForkedRanks(int size, const std::function<int(int rank)>& body) {
    std::fflush(nullptr);  // otherwise a child would print it again
    const pid_t parent = getpid();
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      LOCKSTEP_CHECK(pid >= 0, "fork: {}", std::strerror(errno));
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(127);
        const int code = body(rank);
        std::fflush(nullptr);
        _exit(code);
      }
      children_.push_back({pid, static_cast<int>(syscall(SYS_pidfd_open, pid, 0))});
    }
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;
  ~ForkedRanks() {
    for (const Child& child : children_) {
      if (!child.reaped) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
      }
      close(child.pidfd);
    }
  }

  pid_t pid(int rank) const { return at(rank).pid; }
  void Signal(int rank, int signal) {
    if (!at(rank).reaped) kill(at(rank).pid, signal);
  }
  // Waits for the process. Returns its exit code, 128 + signal, or -1 if it still runs after
  // `timeout`.
  int Wait(int rank, Duration timeout = std::chrono::seconds(60)) {
    Child& child = children_.at(static_cast<std::size_t>(rank));
    pollfd poll_fd{child.pidfd, POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
    if (!child.reaped && poll(&poll_fd, 1, static_cast<int>(left)) == 1) {
      int status = 0;
      waitpid(child.pid, &status, 0);
      child.reaped = true;
      child.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return child.code;
  }

 private:
  struct Child {
    pid_t pid = 0;
    int pidfd = -1;
    int code = -1;
    bool reaped = false;
  };
  const Child& at(int rank) const { return children_.at(static_cast<std::size_t>(rank)); }
  std::vector<Child> children_;
};

}  // namespace lockstep::train
