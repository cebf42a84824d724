#include "operator/progress/pod_connections.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::progress {
namespace {

constexpr std::uint64_t kWakeKey = 0;  // relay ids begin with 1

absl::Status Unavailable(const char* what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, std::strerror(errno)));
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;  // 0: invalid
};

Address AddressOf(const std::string& host, int port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  const auto network_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = network_port;
    address.length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = network_port;
    address.length = sizeof *v6;
  }
  return address;
}

absl::StatusOr<Descriptor> StartConnecting(const std::string& host, int port) {
  const Address address = AddressOf(host, port);
  if (address.length == 0 || port <= 0 || port > 65535) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\", port {}: expected an IP address and a port of 1 to 65535", host, port));
  }
  Descriptor socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return Unavailable("socket");
  const int on = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(socket.fd(), generic, address.length) != 0 && errno != EINPROGRESS) {
    return Unavailable("connect");
  }
  return socket;
}

}  // namespace

PodConnections::PodConnections(std::size_t most_bytes)
    : most_bytes_(most_bytes),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeKey}};
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, wake_.fd(), &event);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

PodConnections::~PodConnections() {
  thread_.request_stop();
  ::eventfd_write(wake_.fd(), 1);
}

absl::StatusOr<PodConnections::Opened> PodConnections::Open(const std::string& host, int port) {
  absl::StatusOr<Descriptor> pod = StartConnecting(host, port);
  if (!pod.ok()) return pod.status();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    return Unavailable("socketpair");
  }
  Descriptor theirs(ends[0]);
  const auto left = std::make_shared<std::size_t>(most_bytes_);
  Relay relay(*std::move(pod), Descriptor(ends[1]), [left](std::string_view piece) {
    if (piece.size() > *left) return false;
    *left -= piece.size();
    return true;
  });
  const std::lock_guard lock(mutex_);
  const Id id = next_id_++;
  Connection& connection =
      connections_.emplace(id, Connection{std::move(relay), left}).first->second;
  connection.relay.Watch(epoll_.fd(), id);
  return Opened{id, std::move(theirs)};
}

bool PodConnections::Allow(Id id) {
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(id);
  if (at == connections_.end() || !KeepsUp(at->second.relay)) return false;
  *at->second.left = most_bytes_;
  return true;
}

bool PodConnections::KeepsUp(Id id) const {
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(id);
  return at != connections_.end() && KeepsUp(at->second.relay);
}

bool PodConnections::KeepsUp(const Relay& relay) {
  return relay.fd(Relay::kCaller) >= 0 && relay.HasAll(Relay::kCaller);
}

std::size_t PodConnections::size() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void PodConnections::Run(const std::stop_token& stop) {
  std::array<epoll_event, 64> events;
  while (!stop.stop_requested()) {
    const int count = ::epoll_wait(epoll_.fd(), events.data(), events.size(), -1);
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 != kWakeKey) Handle(event.data.u64, event.events);
    }
  }
}

// Requires mutex_.
void PodConnections::Handle(std::uint64_t key, std::uint32_t events) {
  const auto at = connections_.find(Relay::IdOf(key));
  if (at == connections_.end()) return;  // already closed while handling this batch of events
  Relay& relay = at->second.relay;
  relay.Handle(Relay::SideOf(key), events);
  // Once gRPC has closed its end, nobody reads what the pod still sends.
  if (relay.fd(Relay::kServer) < 0) connections_.erase(at);
}

}  // namespace lockstep::progress
