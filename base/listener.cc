#include "base/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr int kMaxPort = 65535;

struct HostPort {
  std::string host;  // empty: all addresses
  int port = 0;
};

absl::StatusOr<HostPort> Parse(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  int port = -1;
  if (colon != std::string::npos) {
    const char* end = address.data() + address.size();
    const auto read = std::from_chars(address.data() + colon + 1, end, port);
    if (read.ec != std::errc() || read.ptr != end) port = -1;
  }
  std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  if (port < 0 || port > kMaxPort || bare_ipv6) {
    return absl::InvalidArgumentError(fmt::format(
        "found \"{}\", expected :PORT or HOST:PORT with a port from 0 to {}", address, kMaxPort));
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return HostPort{std::move(host), port};
}

absl::StatusOr<Listener> ListenAtOne(const addrinfo& at, int backlog) {
  const auto failed = [] { return absl::UnavailableError(std::strerror(errno)); };
  Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return failed();
  const int on = 1, off = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6) {  // accept IPv4 too
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.fd(), at.ai_addr, at.ai_addrlen) != 0) return failed();
  if (::listen(socket.fd(), backlog) != 0) return failed();
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return failed();
  }
  const in_port_t port = bound.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  return Listener{std::move(socket), ntohs(port)};
}

std::string HostOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const auto& peer = reinterpret_cast<const sockaddr_in6&>(address);
    return {reinterpret_cast<const char*>(&peer.sin6_addr), sizeof peer.sin6_addr};
  }
  const auto& peer = reinterpret_cast<const sockaddr_in&>(address);
  return {reinterpret_cast<const char*>(&peer.sin_addr), sizeof peer.sin_addr};
}

}  // namespace

absl::Status CheckBindAddress(const std::string& address) {
  return Parse(address).status();
}

// Tries the host's addresses in order. For all addresses prefers IPv6, which accepts IPv4 too.
absl::StatusOr<Listener> ListenAt(const std::string& address, int backlog) {
  LOCKSTEP_ASSIGN_OR_RETURN(const HostPort where, Parse(address));
  absl::Status error = absl::UnavailableError("it has no address");
  std::vector<int> families = {AF_UNSPEC};
  if (where.host.empty()) families = {AF_INET6, AF_INET};
  for (const int family : families) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(where.port);
    const int code = ::getaddrinfo(where.host.empty() ? nullptr : where.host.c_str(), port.c_str(),
                                   &hints, &found);
    if (code != 0) {
      error = absl::UnavailableError(::gai_strerror(code));
      continue;
    }
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      absl::StatusOr<Listener> listener = ListenAtOne(*at, backlog);
      if (listener.ok()) {
        ::freeaddrinfo(found);
        return listener;
      }
      error = listener.status();
    }
    ::freeaddrinfo(found);
  }
  return error;
}

Caller Accept(const Listener& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  Descriptor socket(::accept4(listener.socket.fd(), reinterpret_cast<sockaddr*>(&address), &length,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.fd() < 0) return {};
  return {std::move(socket), HostOf(address)};
}

std::string HostText(const std::string& host) {
  const bool is_ipv4 = host.size() == sizeof(in_addr);
  if (!is_ipv4 && host.size() != sizeof(in6_addr)) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(is_ipv4 ? AF_INET : AF_INET6, host.data(), text.data(), text.size());
  return text.data();
}

}  // namespace lockstep
