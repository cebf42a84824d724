// Signals that a program waits for, instead of handlers that interrupt it.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <optional>

#include "base/clock.h"
#include "base/descriptor.h"

namespace lockstep {

// Blocks `signals` for the calling thread and those that it starts, so create it before any other
// thread. They stay blocked after its end: a signal that arrives while the process is exiting must
// not change its exit code. Children inherit neither: see Launch. Next and Wait are thread-safe.
class SignalFd {
 public:
  SignalFd(std::initializer_list<int> signals);
  SignalFd(const SignalFd&) = delete;
  SignalFd& operator=(const SignalFd&) = delete;

  int fd() const { return fd_.fd(); }  // readable while a signal waits
  // Returns a signal that has arrived, each once, or nullopt if none waits.
  std::optional<int> Next();
  // Waits for a signal, at most `timeout`. Returns nullopt if none has arrived.
  std::optional<int> Wait(std::optional<Duration> timeout = std::nullopt);

 private:
  Descriptor fd_;
};

// From now on writing to a connection that the peer has closed fails with EPIPE instead of ending
// the process, unless SIGPIPE has a handler.
void IgnoreBrokenPipes();

}  // namespace lockstep
