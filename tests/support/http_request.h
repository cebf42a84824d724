// A minimal HTTP client for tests, for servers on this machine.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

namespace lockstep::testing {

// A connection to a port of this machine. The constructor throws if it cannot connect.
class TcpClient {
 public:
  struct Options {
    bool ipv6 = false;               // connect to ::1 instead of 127.0.0.1
    const char* from = "127.0.0.1";  // source address, in 127.0.0.0/8; IPv4 only
  };
  explicit TcpClient(int port) : TcpClient(port, Options{}) {}
  TcpClient(int port, const Options& options)
      : fd_(::socket(options.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0)) {
    const bool ipv6 = options.ipv6;
    const auto network_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in address{.sin_family = AF_INET,
                        .sin_port = network_port,
                        .sin_addr = {htonl(INADDR_LOOPBACK)},
                        .sin_zero = {}};
    sockaddr_in6 address6{.sin6_family = AF_INET6,
                          .sin6_port = network_port,
                          .sin6_flowinfo = 0,
                          .sin6_addr = in6addr_loopback,
                          .sin6_scope_id = 0};
    sockaddr_in from{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    ::inet_pton(AF_INET, options.from, &from.sin_addr);
    if (!ipv6 && ::bind(fd_, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
      ::close(fd_);
      throw std::runtime_error("cannot bind");
    }
    const int failed =
        ipv6 ? ::connect(fd_, reinterpret_cast<const sockaddr*>(&address6), sizeof address6)
             : ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (failed == 0) return;
    ::close(fd_);
    throw std::runtime_error("cannot connect");
  }
  ~TcpClient() { ::close(fd_); }
  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;

  // Returns false once the peer has closed the connection.
  bool Send(const std::string& bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Reads until the connection ends, in whatever way.
  std::string ReadAll() {
    std::string text;
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::recv(fd_, buffer.data(), buffer.size(), 0)) > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  const int fd_;
};

// Returns the whole answer to an HTTP request to a port of this machine.
inline std::string Request(int port, const std::string& method, const std::string& path,
                           bool ipv6 = false) {
  TcpClient client(port, {.ipv6 = ipv6});
  EXPECT_TRUE(client.Send(fmt::format("{} {} HTTP/1.0\r\n\r\n", method, path)));
  return client.ReadAll();
}

}  // namespace lockstep::testing
