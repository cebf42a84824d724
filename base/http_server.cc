#include "base/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kLongestRequest = 8192;
// Probers send their request at once; a scraper may be slow to read the answer.
constexpr Duration kRequestTime = std::chrono::seconds(1), kAnswerTime = std::chrono::seconds(5);
// In total, and per peer. Beyond either limit the oldest connection (of the peer) is closed.
constexpr std::size_t kMostConnections = 128, kMostOfPeer = 8;
// Bounds the accepts between two looks at open connections, so that a flood of connections delays
// none of them.
constexpr int kAcceptedInATurn = 16;
constexpr Duration kPause = std::chrono::milliseconds(100);  // after accept has failed

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

// An encoded answer, shared by all connections that get it.
struct Text {
  std::string bytes;
  std::size_t head = 0;  // bytes that HEAD gets
};

std::shared_ptr<const Text> TextOf(const HttpAnswer& answer) {
  Text text;
  text.bytes = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
      answer.status, ReasonOf(answer.status), answer.content_type, answer.body.size());
  text.head = text.bytes.size();
  text.bytes += answer.body;
  return std::make_shared<const Text>(std::move(text));
}

struct Connection {
  Descriptor socket;
  std::string peer;
  SteadyTime deadline;
  std::string request;
  std::shared_ptr<const Text> answer = nullptr;  // set while it is being sent
  std::size_t length = 0, sent = 0;              // of the answer
};

struct Page {
  HttpPage make;
  std::shared_ptr<const Text> latest = nullptr;
  SteadyTime fresh_until{};
};

// A single thread that never blocks on a connection: an idle one only occupies its slot, and a peer
// with too many loses its oldest.
class PollingServer final : public HttpServer {
 public:
  PollingServer(Listener listener, const std::map<std::string, HttpPage>& pages)
      : listener_(std::move(listener)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (const auto& [path, page] : pages) pages_.emplace(path, Page{page});
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }

  ~PollingServer() override {
    thread_.request_stop();
    const std::uint64_t one = 1;
    if (::write(wake_.fd(), &one, sizeof one) < 0) return;  // poll will time out instead
  }

  int port() const override { return listener_.port; }

 private:
  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const int listener = Now() < accept_at_ ? -1 : listener_.socket.fd();
      std::vector<pollfd> fds = {{listener, POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
      for (const Connection& connection : connections_) {
        const short events = connection.answer ? POLLOUT : POLLIN;
        fds.push_back({connection.socket.fd(), events, 0});
      }
      if (::poll(fds.data(), fds.size(), TimeoutMillis()) < 0 && errno != EINTR) return;
      std::size_t i = 2;
      for (auto it = connections_.begin(); it != connections_.end(); ++i) {
        const bool over = it->deadline <= Now() || (fds[i].revents != 0 && !Serve(*it));
        it = over ? connections_.erase(it) : std::next(it);
      }
      if (fds[0].revents != 0) AcceptSome();
    }
  }

  int TimeoutMillis() const {
    Duration left = std::chrono::seconds(1);
    if (accept_at_ > Now()) left = accept_at_ - Now();
    for (const Connection& connection : connections_) {
      left = std::min(left, connection.deadline - Now());
    }
    return std::max(0,
                    static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }

  void AcceptSome() {
    for (int i = 0; i < kAcceptedInATurn; ++i) {
      Caller caller = Accept(listener_);
      if (caller.socket.fd() < 0) {
        // E.g. out of descriptors. Without a pause, poll would report the waiting connection
        // endlessly.
        if (errno != EAGAIN && errno != ECONNABORTED) accept_at_ = Now() + kPause;
        return;
      }
      MakeRoom(caller.host);
      connections_.push_back(
          {std::move(caller.socket), std::move(caller.host), Now() + kRequestTime, ""});
      // A probe has sent its request by now, and must not lose its place to those that come after
      // it from the same address.
      if (!Serve(connections_.back())) connections_.pop_back();
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

  // Returns false if the connection is finished.
  bool Serve(Connection& connection) {
    if (!connection.answer && !Read(connection)) return false;
    if (!connection.answer) return true;
    const std::string_view rest = std::string_view(connection.answer->bytes)
                                      .substr(0, connection.length)
                                      .substr(connection.sent);
    const ssize_t sent =
        ::send(connection.socket.fd(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<std::size_t>(sent);
    return connection.sent < connection.length;
  }

  bool Read(Connection& connection) {
    char bytes[2048];
    const ssize_t count = ::recv(connection.socket.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    connection.request.append(bytes, static_cast<std::size_t>(count));
    if (connection.request.size() > kLongestRequest) return false;
    if (connection.request.find("\r\n\r\n") == std::string::npos) return true;
    Answer(connection);
    connection.deadline = Now() + kAnswerTime;
    return true;
  }

  // "GET /metrics?x HTTP/1.1"
  void Answer(Connection& connection) {
    const std::string line = connection.request.substr(0, connection.request.find("\r\n"));
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    const std::string method = line.substr(0, first);
    if (first == std::string::npos || second == std::string::npos) {
      connection.answer = TextOf({.status = 400, .body = "no request\n"});
    } else if (method != "GET" && method != "HEAD") {
      connection.answer = TextOf({.status = 405, .body = "GET and HEAD only\n"});
    } else {
      const std::string target = line.substr(first + 1, second - first - 1);
      connection.answer = PageAt(target.substr(0, target.find('?')));
    }
    connection.length =
        method == "HEAD" ? connection.answer->head : connection.answer->bytes.size();
  }

  std::shared_ptr<const Text> PageAt(const std::string& path) {
    const auto at = pages_.find(path);
    if (at == pages_.end()) return TextOf({.status = 404, .body = "no such page\n"});
    Page& page = at->second;
    if (page.latest && Now() < page.fresh_until) return page.latest;
    const HttpAnswer made = page.make();
    std::shared_ptr<const Text> text = TextOf(made);
    page.fresh_until = Now() + made.fresh_for;
    page.latest = made.fresh_for > Duration::zero() ? text : nullptr;
    return text;
  }

  const Listener listener_;
  const Descriptor wake_;
  std::map<std::string, Page> pages_;  // this and the next: used only by the thread
  std::list<Connection> connections_;  // oldest first
  SteadyTime accept_at_{};             // no accepts before
  std::jthread thread_;                // declared last, since it uses the members above
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, const std::map<std::string, HttpPage>& pages) {
  LOCKSTEP_RETURN_IF_ERROR(CheckBindAddress(address));
  absl::StatusOr<Listener> listener = ListenAt(address, kBacklog);
  if (!listener.ok()) {
    return absl::UnavailableError(fmt::format("address {}: cannot listen: is the port taken? ({})",
                                              address, std::string(listener.status().message())));
  }
  return std::make_unique<PollingServer>(*std::move(listener), pages);
}

}  // namespace lockstep
