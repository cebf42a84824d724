// HTTP as a test speaks it to a server on this machine.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

namespace lockstep::testing {

// A connection to a port of this machine.
class TcpClient {
 public:
  explicit TcpClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
    ::close(fd_);
    throw std::runtime_error("cannot connect");
  }
  ~TcpClient() { ::close(fd_); }
  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;

  // False once the peer has closed the connection.
  bool Send(const std::string& bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Until the peer closes the connection, however.
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

// The whole answer of an HTTP request to a port of this machine.
inline std::string Request(int port, const std::string& method, const std::string& path) {
  TcpClient client(port);
  EXPECT_TRUE(client.Send(fmt::format("{} {} HTTP/1.0\r\n\r\n", method, path)));
  return client.ReadAll();
}

}  // namespace lockstep::testing
