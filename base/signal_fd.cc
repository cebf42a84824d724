#include "base/signal_fd.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace lockstep {

SignalFd::SignalFd(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  LOCKSTEP_CHECK(fd_.fd() >= 0, "signalfd: {}", std::strerror(errno));
}

std::optional<int> SignalFd::Next() {
  signalfd_siginfo info;
  if (read(fd_.fd(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::optional<int> SignalFd::Wait(std::optional<Duration> timeout) {
  const SteadyTime start = std::chrono::steady_clock::now();
  while (true) {
    if (const std::optional<int> signal = Next()) return signal;
    int timeout_ms = -1;
    if (timeout) {
      const Duration left = *timeout - (std::chrono::steady_clock::now() - start);
      if (left <= Duration::zero()) return std::nullopt;
      timeout_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(
                                        std::min<Duration>(left, std::chrono::hours(1)))
                                        .count());
    }
    pollfd ready{fd_.fd(), POLLIN, 0};
    poll(&ready, 1, timeout_ms);
  }
}

void IgnoreBrokenPipes() {
  struct sigaction current{};
  if (sigaction(SIGPIPE, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace lockstep
