// TCP sockets that wait for callers.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// Owns a file descriptor; -1: none.
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
  Socket socket;  // does not block, and is closed in programs that this one starts
  int port = 0;
};

// "HOST:PORT", "[::1]:PORT", or for all addresses, those of IPv4 included, ":PORT" or "[::]:PORT";
// InvalidArgument says what was found.
absl::Status CheckBindAddress(const std::string& address);

// Listens at such an address; port 0 picks one. `backlog`: how many may wait to be accepted.
// Unavailable says why that is not possible, but does not name the address.
absl::StatusOr<Listener> ListenAt(const std::string& address, int backlog);

struct Caller {
  Socket socket;     // as the listener's; fd -1: nobody waits, or errno says what went wrong
  std::string host;  // the address as bytes, without the port
};
Caller Accept(const Listener& listener);

}  // namespace lockstep
