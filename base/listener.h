// Listening TCP sockets.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// Owns a file descriptor; -1 if it has none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { Close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct Listener {
  Socket socket;  // non-blocking and close-on-exec
  int port = 0;
};

// Returns OK for "HOST:PORT" and "[::1]:PORT", and for ":PORT" and "[::]:PORT", which mean all
// addresses, IPv4 included. Otherwise returns InvalidArgument, quoting the address.
absl::Status CheckBindAddress(const std::string& address);

// Listens at such an address; port 0 picks a port. `backlog` is the number of connections that may
// wait to be accepted. Returns InvalidArgument for a malformed address, or Unavailable, with the
// reason but not the address, on failure.
absl::StatusOr<Listener> ListenAt(const std::string& address, int backlog);

struct Caller {
  Socket socket;     // as the listener's; fd -1 if none waits (EAGAIN) or accept failed: see errno
  std::string host;  // the address in binary, without the port
};
Caller Accept(const Listener& listener);

}  // namespace lockstep
