#include "operator/local/guardian.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/launch.h"
#include "operator/local/marked_processes.h"
#include "operator/local/plain_links.h"

namespace lockstep::local {
namespace {

[[noreturn]] void Guard(const std::string& mark, const std::string& links, int program) {
  setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  // Programs that read our output until it is closed must not wait for this process.
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  char byte = 0;
  ssize_t got = 0;
  do {
    got = read(program, &byte, 1);
  } while (got < 0 && errno == EINTR);
  // The socket was closed without a byte: our program was killed.
  if (got == 0) {
    KillMarked(mark, ProcessIds, [](pid_t pid) { return kill(pid, SIGKILL) == 0; });
    RemoveLinks(links);
  }
  _exit(0);
}

}  // namespace

Guardian::Guardian(const std::string& mark, const std::string& links) {
  int ends[2];
  LOCKSTEP_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair: {}",
                 std::strerror(errno));
  Descriptor ours(ends[0]), theirs(ends[1]);
  pid_ = fork();
  LOCKSTEP_CHECK(pid_ >= 0, "fork: {}", std::strerror(errno));
  if (pid_ == 0) {
    ours.Close();
    Guard(mark, links, theirs.fd());
  }
  guardian_ = std::move(ours);
}

Guardian::~Guardian() {
  const char byte = 0;
  // The guardian may have been killed. That must not end this program, as a pipe's signal would.
  [[maybe_unused]] const ssize_t sent = send(guardian_.fd(), &byte, 1, MSG_NOSIGNAL);
  guardian_.Close();
  WaitFor(pid_);
}

std::string MarkOfThisRun() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}-{:x}/", getpid(), now);
}

}  // namespace lockstep::local
