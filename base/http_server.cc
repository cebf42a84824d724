#include "base/http_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kLongestRequest = 8192;
// Probers send their request at once; a scraper may be slow to read the answer; and a client that
// posts may wait a second for a 100 Continue, which this server never sends, before it sends the
// body.
constexpr Duration kRequestTime = std::chrono::seconds(1), kAnswerTime = std::chrono::seconds(5),
                   kBodyTime = std::chrono::seconds(5);
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
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
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
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n{}\r\n",
      answer.status, ReasonOf(answer.status), answer.content_type, answer.body.size(),
      answer.headers);
  text.head = text.bytes.size();
  text.bytes += answer.body;
  return std::make_shared<const Text>(std::move(text));
}

struct Connection {
  Descriptor socket;
  std::string peer;
  SteadyTime deadline;
  std::string request;
  std::size_t head = 0, body = 0;  // bytes of the request's; head is 0 until it is complete
  std::shared_ptr<const Text> answer = nullptr;  // set while it is being sent
  std::size_t length = 0, sent = 0;              // of the answer
};

struct Page {
  HttpPage make;
  std::shared_ptr<const Text> latest = nullptr;
  SteadyTime fresh_until{};
};

// "GET /metrics?x HTTP/1.1"
struct RequestLine {
  std::string method, path, query;
};

std::optional<RequestLine> ReadRequestLine(std::string_view request) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::size_t path_end = std::min(target.find('?'), target.size());
  return RequestLine{std::string(line.substr(0, first)), std::string(target.substr(0, path_end)),
                     std::string(target.substr(std::min(path_end + 1, target.size())))};
}

// In Debian's Abseil, absl::string_view is not std::string_view.
absl::string_view AbslView(std::string_view text) {
  return {text.data(), text.size()};
}

// Returns the value of the header `name`, in any case; empty if there is none.
std::string HeaderOf(std::string_view head, std::string_view name) {
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos;
       at = head.find("\r\n", at + 2)) {
    std::string_view line = head.substr(at + 2);
    line = line.substr(0, line.find("\r\n"));
    const std::size_t colon = line.find(':');
    if (colon != name.size() ||
        !absl::EqualsIgnoreCase(AbslView(line.substr(0, colon)), AbslView(name)))
      continue;
    return std::string(absl::StripAsciiWhitespace(AbslView(line.substr(colon + 1))));
  }
  return "";
}

// A single thread that never blocks on a connection: an idle one only occupies its slot, and a peer
// with too many loses its oldest.
class PollingServer final : public HttpServer {
 public:
  // Without a `responder` there are only the pages.
  PollingServer(Listener listener, const std::map<std::string, HttpPage>& pages, HttpIntake intake,
                HttpResponder responder)
      : listener_(std::move(listener)),
        intake_(std::move(intake)),
        responder_(std::move(responder)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
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
      if (::poll(fds.data(), fds.size(), TimeoutMillis()) < 0 && errno != EINTR) {
        return LogEnd(errno);
      }
      std::size_t i = 2;
      for (auto it = connections_.begin(); it != connections_.end(); ++i) {
        const bool over = it->deadline <= Now() || (fds[i].revents != 0 && !Serve(*it));
        it = over ? connections_.erase(it) : std::next(it);
      }
      if (fds[0].revents != 0) AcceptSome();
    }
  }

  void LogEnd(int error) const {
    LogError("an HTTP server has ended: it cannot wait for its connections",
             {{"port", listener_.port}, {"error", std::generic_category().message(error)}});
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

  // Returns true if no more connections can wait to be accepted: the kernel then drops new ones.
  bool IsQueueFull() const {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(listener_.socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
    const auto waiting = info.tcpi_unacked,
               backlog = info.tcpi_sacked;  // what these fields hold for a listener
    return waiting > backlog;
  }

  void NoteLoss() const {
    if (intake_.on_loss) intake_.on_loss();
  }

  void AcceptSome() {
    for (int i = 0; i < kAcceptedInATurn; ++i) {
      if (IsQueueFull()) NoteLoss();
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
    } else {
      return;
    }
    NoteLoss();
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
    if (connection.head == 0 && !ReadHead(connection)) return false;
    if (connection.head == 0) return true;
    if (!connection.answer && connection.request.size() < connection.head + connection.body) {
      return true;
    }
    if (!connection.answer) TakePost(connection);
    connection.deadline = Now() + kAnswerTime;
    return true;
  }

  // Returns false if the head is too long.
  bool ReadHead(Connection& connection) {
    const std::size_t end = connection.request.find("\r\n\r\n");
    if (std::min(end, connection.request.size()) > kLongestRequest) return false;
    if (end == std::string::npos) return true;
    connection.head = end + 4;
    AnswerHead(connection);
    connection.deadline = Now() + kBodyTime;
    return true;
  }

  // Answers the request, unless it is a post whose body has to be read first.
  void AnswerHead(Connection& connection) {
    const std::optional<RequestLine> line = ReadRequestLine(connection.request);
    if (!line) return Refuse(400, "no request\n", connection);
    if (line->method == "POST" && intake_.take && line->path.starts_with(intake_.prefix)) {
      return AwaitBody(connection);
    }
    if (line->method != "GET" && line->method != "HEAD") {
      return Refuse(405, "GET and HEAD only\n", connection);
    }
    connection.answer =
        responder_ ? TextOf(responder_(GetOf(*line, connection))) : PageAt(line->path);
    connection.length =
        line->method == "HEAD" ? connection.answer->head : connection.answer->bytes.size();
  }

  static HttpGet GetOf(const RequestLine& line, const Connection& connection) {
    const std::string_view head = std::string_view(connection.request).substr(0, connection.head);
    return {.path = line.path,
            .query = line.query,
            .host = HeaderOf(head, "host"),
            .authorization = HeaderOf(head, "authorization")};
  }

  void AwaitBody(Connection& connection) const {
    const std::string_view head = std::string_view(connection.request).substr(0, connection.head);
    const std::string length = HeaderOf(head, "content-length");
    std::uint64_t bytes = 0;
    if (!absl::SimpleAtoi(length, &bytes)) {
      return Refuse(411, "found no usable Content-Length, expected a number of bytes\n",
                    connection);
    }
    if (bytes > intake_.most_bytes) {
      return Refuse(
          413,
          fmt::format("found a body of {} bytes, expected at most {}\n", bytes, intake_.most_bytes),
          connection);
    }
    connection.body = bytes;
  }

  void TakePost(Connection& connection) const {
    const std::string_view request = connection.request;
    const HttpPost post = {
        .path = ReadRequestLine(request)->path,
        .authorization = HeaderOf(request.substr(0, connection.head), "authorization"),
        .body = std::string(request.substr(connection.head, connection.body))};
    connection.answer = TextOf(intake_.take(post));
    connection.length = connection.answer->bytes.size();
  }

  static void Refuse(int status, const std::string& why, Connection& connection) {
    connection.answer = TextOf({.status = status, .body = why});
    connection.length = connection.answer->bytes.size();
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
  const HttpIntake intake_;
  const HttpResponder responder_;
  const Descriptor wake_;
  std::map<std::string, Page> pages_;  // this and the next two: used only by the thread
  std::list<Connection> connections_;  // oldest first
  SteadyTime accept_at_{};             // no accepts before
  std::jthread thread_;                // declared last, since it uses the members above
};

absl::StatusOr<std::unique_ptr<HttpServer>> StartAt(const std::string& address,
                                                    const std::map<std::string, HttpPage>& pages,
                                                    HttpIntake intake, HttpResponder responder) {
  LOCKSTEP_RETURN_IF_ERROR(CheckBindAddress(address));
  absl::StatusOr<Listener> listener = ListenAt(address, kBacklog);
  if (!listener.ok()) {
    return absl::UnavailableError(fmt::format("address {}: cannot listen: is the port taken? ({})",
                                              address, std::string(listener.status().message())));
  }
  return std::make_unique<PollingServer>(*std::move(listener), pages, std::move(intake),
                                         std::move(responder));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, const std::map<std::string, HttpPage>& pages, HttpIntake intake) {
  return StartAt(address, pages, std::move(intake), {});
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::StartWith(const std::string& address,
                                                                  HttpResponder responder) {
  return StartAt(address, {}, {}, std::move(responder));
}

}  // namespace lockstep
