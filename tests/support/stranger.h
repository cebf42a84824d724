// A TCP caller from a loopback address that may not be let in.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>

#include "base/descriptor.h"

namespace lockstep::testing {

// Tries to connect to a port of 127.0.0.1 for as long as it exists, without waiting.
class Stranger {
 public:
  Stranger(int port, const char* from)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    const sockaddr_in source = Address(from, 0), target = Address("127.0.0.1", port);
    EXPECT_EQ(::bind(socket_.fd(), reinterpret_cast<const sockaddr*>(&source), sizeof source), 0);
    ::connect(socket_.fd(), reinterpret_cast<const sockaddr*>(&target), sizeof target);
  }
  // False if it is not connected within a second.
  bool IsLetIn() const {
    pollfd connected{.fd = socket_.fd(), .events = POLLOUT, .revents = 0};
    return ::poll(&connected, 1, 1000) == 1 && (connected.revents & POLLERR) == 0;
  }
  // Does nothing unless it is connected.
  void Send(std::span<const std::byte> bytes) {
    ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Ends the connection as the kernel does for a process that is killed with bytes to read.
  void Reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket_ = Descriptor();
  }

 private:
  static sockaddr_in Address(const char* host, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    ::inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }

  Descriptor socket_;
};

}  // namespace lockstep::testing
