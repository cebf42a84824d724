// TCP over loopback, for the servers of tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "base/check.h"

namespace lockstep::testing {

inline sockaddr_in LoopbackAddress(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// Returns a listening socket and its port.
inline std::pair<int, int> ListenOnLoopback() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = LoopbackAddress(0);
  socklen_t size = sizeof address;
  LOCKSTEP_CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     listen(listener, 64) == 0 &&
                     getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0,
                 "no loopback port");
  return {listener, ntohs(address.sin_port)};
}

// Returns a connected socket, or -1 on failure.
inline int ConnectToLoopback(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return connection;
  }
  close(connection);
  return -1;
}

// Sends all bytes. Returns false if the peer is gone.
inline bool SendAll(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace lockstep::testing
