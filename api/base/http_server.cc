#include "api/base/http_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "api/base/clock.h"
#include "api/base/status.h"

namespace lockstep {
namespace {

constexpr int kMaxPort = 65535;
constexpr int kBacklog = 128;
constexpr std::size_t kLongestRequest = 8192;
// A prober sends its request at once; a scraper may take its time with the answer.
constexpr Duration kRequestTime = std::chrono::seconds(1), kAnswerTime = std::chrono::seconds(5);
// Of all peers, and of one: beyond that its oldest connection is closed for the new one.
constexpr std::size_t kMostConnections = 128, kMostOfPeer = 8;

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

std::string TextOf(const HttpAnswer& answer, bool with_body) {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
      answer.status, ReasonOf(answer.status), answer.content_type, answer.body.size());
  if (with_body) text += answer.body;
  return text;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// The address as bytes, without the port.
std::string PeerOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const auto& peer = reinterpret_cast<const sockaddr_in6&>(address);
    return {reinterpret_cast<const char*>(&peer.sin6_addr), sizeof peer.sin6_addr};
  }
  const auto& peer = reinterpret_cast<const sockaddr_in&>(address);
  return {reinterpret_cast<const char*>(&peer.sin_addr), sizeof peer.sin_addr};
}

struct Connection {
  Socket socket;
  std::string peer;
  SteadyTime deadline;
  std::string request, answer;
  std::size_t sent = 0;
  bool answering = false;
};

// One thread that waits for nobody: a connection that says nothing costs its place, and the oldest
// of a peer that has too many is closed.
class PollingServer final : public HttpServer {
 public:
  PollingServer(Socket listener, int port, std::map<std::string, HttpPage> pages)
      : listener_(std::move(listener)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        port_(port),
        pages_(std::move(pages)),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  ~PollingServer() override {
    thread_.request_stop();
    const std::uint64_t one = 1;
    if (::write(wake_.fd(), &one, sizeof one) < 0) return;  // its poll times out
  }

  int port() const override { return port_; }

 private:
  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> fds = {{listener_.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
      for (const Connection& connection : connections_) {
        const short events = connection.answering ? POLLOUT : POLLIN;
        fds.push_back({connection.socket.fd(), events, 0});
      }
      if (::poll(fds.data(), fds.size(), TimeoutMillis()) < 0 && errno != EINTR) return;
      std::size_t i = 2;
      for (auto it = connections_.begin(); it != connections_.end(); ++i) {
        const bool over = it->deadline <= Now() || (fds[i].revents != 0 && !Serve(*it));
        it = over ? connections_.erase(it) : std::next(it);
      }
      if (fds[0].revents != 0) Accept();
    }
  }

  int TimeoutMillis() const {
    Duration left = std::chrono::seconds(1);
    for (const Connection& connection : connections_) {
      left = std::min(left, connection.deadline - Now());
    }
    return std::max(0,
                    static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }

  void Accept() {
    while (true) {
      sockaddr_storage address{};
      socklen_t length = sizeof address;
      Socket socket(::accept4(listener_.fd(), reinterpret_cast<sockaddr*>(&address), &length,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.fd() < 0) return;
      std::string peer = PeerOf(address);
      MakeRoom(peer);
      connections_.push_back(
          {std::move(socket), std::move(peer), Now() + kRequestTime, "", "", 0, false});
    }
  }

  void MakeRoom(const std::string& peer) {
    const auto of_peer = [&peer](const Connection& connection) { return connection.peer == peer; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(connections_, of_peer));
    if (count >= kMostOfPeer) {
      connections_.erase(std::ranges::find_if(connections_, of_peer));
    } else if (connections_.size() >= kMostConnections) {
      connections_.pop_front();
    }
  }

  // False: the connection is done with.
  bool Serve(Connection& connection) {
    if (!connection.answering && !Read(connection)) return false;
    if (!connection.answering) return true;
    const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
    const ssize_t sent =
        ::send(connection.socket.fd(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<std::size_t>(sent);
    return connection.sent < connection.answer.size();
  }

  bool Read(Connection& connection) {
    char bytes[2048];
    const ssize_t count = ::recv(connection.socket.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    connection.request.append(bytes, static_cast<std::size_t>(count));
    if (connection.request.size() > kLongestRequest) return false;
    if (connection.request.find("\r\n\r\n") == std::string::npos) return true;
    connection.answer = AnswerTo(connection.request);
    connection.answering = true;
    connection.deadline = Now() + kAnswerTime;
    return true;
  }

  // "GET /metrics?x HTTP/1.1"
  std::string AnswerTo(const std::string& request) const {
    const std::string line = request.substr(0, request.find("\r\n"));
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      return TextOf({.status = 400, .body = "no request\n"}, true);
    }
    const std::string method = line.substr(0, first);
    const std::string target = line.substr(first + 1, second - first - 1);
    if (method != "GET" && method != "HEAD") {
      return TextOf({.status = 405, .body = "GET and HEAD only\n"}, true);
    }
    const auto page = pages_.find(target.substr(0, target.find('?')));
    if (page == pages_.end()) return TextOf({.status = 404, .body = "no such page\n"}, true);
    return TextOf(page->second(), method == "GET");
  }

  const Socket listener_, wake_;
  const int port_;
  const std::map<std::string, HttpPage> pages_;
  std::list<Connection> connections_;  // of the thread; oldest first
  std::jthread thread_;                // last: it uses all of the above
};

struct HostPort {
  std::string host;  // empty: all
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

struct Listener {
  Socket socket;
  int port = 0;
};

absl::StatusOr<Listener> ListenAt(const addrinfo& at) {
  const auto failed = [] { return absl::UnavailableError(std::strerror(errno)); };
  Socket socket(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return failed();
  const int on = 1, off = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6) {  // IPv4 beside it
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.fd(), at.ai_addr, at.ai_addrlen) != 0) return failed();
  if (::listen(socket.fd(), kBacklog) != 0) return failed();
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

// The first of the host's addresses that can be had; of all addresses IPv6's, which take IPv4 too.
absl::StatusOr<Listener> Listen(const HostPort& where) {
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
      absl::StatusOr<Listener> listener = ListenAt(*at);
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

}  // namespace

absl::Status CheckBindAddress(const std::string& address) {
  return Parse(address).status();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, const std::map<std::string, HttpPage>& pages) {
  LOCKSTEP_ASSIGN_OR_RETURN(const HostPort where, Parse(address));
  absl::StatusOr<Listener> listener = Listen(where);
  if (!listener.ok()) {
    return absl::UnavailableError(fmt::format("address {}: cannot listen: is the port taken? ({})",
                                              address, std::string(listener.status().message())));
  }
  return std::make_unique<PollingServer>(std::move(listener->socket), listener->port, pages);
}

}  // namespace lockstep
