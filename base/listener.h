// Listening TCP sockets.
#pragma once

#include <sys/socket.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace lockstep {

struct Listener {
  Descriptor socket;  // non-blocking and close-on-exec
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
  Descriptor socket;  // as the listener's; -1: none waits (EAGAIN) or accept failed (see errno)
  std::string host;   // the address in binary, without the port
};
Caller Accept(const Listener& listener);
// Returns a caller's host as text: "10.0.0.1", "fd00::1"; empty if it is none.
std::string HostText(const std::string& host);

}  // namespace lockstep
