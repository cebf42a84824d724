#include "operator/cli/local/inbox.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace lockstep::cli {
namespace {

// nohup has SIGHUP ignored, and a shell without job control SIGINT in what it starts with `&`.
bool IsIgnored(int signal) {
  struct sigaction current{};
  return sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

}  // namespace

Inbox::Inbox() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // A signal that is blocked arrives at a signalfd even if it is ignored.
    if (!IsIgnored(signal)) sigaddset(&set, signal);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  LOCKSTEP_CHECK(signals_ >= 0 && wake_ >= 0, "signalfd and eventfd: {}", std::strerror(errno));
}

Inbox::~Inbox() {
  close(signals_);
  close(wake_);
}

void Inbox::Post(Message message) {
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

std::vector<Message> Inbox::Wait(std::optional<SteadyTime> deadline) {
  while (true) {
    int timeout = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          *deadline - std::chrono::steady_clock::now());
      timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
    }
    std::array<pollfd, 2> fds{{{wake_, POLLIN, 0}, {signals_, POLLIN, 0}}};
    const int ready = poll(fds.data(), fds.size(), timeout);
    if (ready < 0 && errno == EINTR) continue;
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_, &count, sizeof count);
    std::vector<Message> messages;
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      messages.emplace_back(SignalReceived{static_cast<int>(info.ssi_signo)});
    }
    const std::lock_guard lock(mutex_);
    std::move(messages_.begin(), messages_.end(), std::back_inserter(messages));
    messages_.clear();
    if (!messages.empty() || ready == 0) return messages;
  }
}

}  // namespace lockstep::cli
