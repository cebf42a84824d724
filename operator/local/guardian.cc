#include "operator/local/guardian.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "operator/local/marked_processes.h"

namespace lockstep::local {
namespace {

[[noreturn]] void Guard(const std::string& mark, int pipe) {
  setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  // Programs that read our output until it is closed must not wait for this process.
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  char byte = 0;
  ssize_t got = 0;
  do {
    got = read(pipe, &byte, 1);
  } while (got < 0 && errno == EINTR);
  // The pipe was closed without a byte: our program was killed.
  if (got == 0) KillMarked(mark, ProcessIds, [](pid_t pid) { return kill(pid, SIGKILL) == 0; });
  _exit(0);
}

}  // namespace

Guardian::Guardian(const std::string& mark) {
  std::array<int, 2> ends{};
  LOCKSTEP_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  pid_ = fork();
  LOCKSTEP_CHECK(pid_ >= 0, "fork: {}", std::strerror(errno));
  if (pid_ == 0) {
    close(ends[1]);
    Guard(mark, ends[0]);
  }
  close(ends[0]);
  pipe_ = ends[1];
}

Guardian::~Guardian() {
  const char byte = 0;
  // The guardian may have been killed.
  [[maybe_unused]] const ssize_t written = write(pipe_, &byte, 1);
  close(pipe_);
  waitpid(pid_, nullptr, 0);
}

std::string MarkOfThisRun() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}-{:x}/", getpid(), now);
}

}  // namespace lockstep::local
