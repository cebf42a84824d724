#include "trainer/strategy/parameter_server/caller_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr int kCallersBacklog = 4096;
constexpr int kMostEvents = 64;
constexpr int kTickMs = 100;
constexpr auto kPauseOfAccepting = std::chrono::milliseconds(5);
constexpr auto kShutOutFor = std::chrono::milliseconds(250);
constexpr auto kCutLogPeriod = std::chrono::seconds(10);
constexpr std::string_view kTooManyBytes = "sent more than 16 KiB";
static_assert(CallerGate::kMostBytes == std::uint64_t{16} << 10);

// What events are about; the rest are guests.
constexpr std::uint64_t kOfListener = 0, kOfWake = 1;

// The other end's address as gRPC writes it, but for its percent signs: "ipv4:10.0.0.1:4711",
// "ipv6:[fd00::1]:4711", "ipv6:[fe80::1%2]:4711" on the second interface.
std::string PeerOf(int socket) {
  sockaddr_in6 address{};
  socklen_t length = sizeof address;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length);
  const int port = ntohs(address.sin6_port);  // at the same place in sockaddr_in
  const void* ipv4 = nullptr;
  if (address.sin6_family == AF_INET) {
    ipv4 = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  } else if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    ipv4 = &address.sin6_addr.s6_addr[12];
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (ipv4 != nullptr) {
    ::inet_ntop(AF_INET, ipv4, text.data(), text.size());
    return fmt::format("ipv4:{}:{}", text.data(), port);
  }
  ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
  const std::uint32_t scope = address.sin6_scope_id;
  return fmt::format("ipv6:[{}{}]:{}", text.data(), scope == 0 ? "" : fmt::format("%{}", scope),
                     port);
}

// Decodes the percent signs of a URI, each with two hexadecimal digits.
std::string Decoded(const std::string& peer) {
  std::string decoded;
  for (std::size_t i = 0; i < peer.size(); ++i) {
    unsigned code = 0;
    const char* const digits = peer.data() + i + 1;
    if (peer[i] == '%' && i + 2 < peer.size() &&
        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      decoded += static_cast<char>(code);
      i += 2;
    } else {
      decoded += peer[i];
    }
  }
  return decoded;
}

// What has arrived from the other end. 0 if the kernel does not say.
std::uint64_t BytesFrom(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length);
  return info.tcpi_bytes_received;
}

void WatchFor(std::uint32_t events, int epoll, int fd, std::uint64_t what) {
  epoll_event event{.events = events, .data = {.u64 = what}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CallerGate>> CallerGate::Listen(const std::string& address,
                                                               const CallerLimits& limits,
                                                               const Clock& clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(Listener listener, ListenAt(address, kCallersBacklog));
  RaiseDescriptorLimit();
  return std::unique_ptr<CallerGate>(new CallerGate(std::move(listener), limits, clock));
}

CallerGate::CallerGate(Listener listener, const CallerLimits& limits, const Clock& clock)
    : listener_(std::move(listener)),
      limits_(limits),
      clock_(clock),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      places_(limits.at_once),
      last_id_(kOfWake),
      refusals_(clock) {
  WatchFor(EPOLLIN, epoll_.fd(), listener_.socket.fd(), kOfListener);
  WatchFor(EPOLLIN, epoll_.fd(), wake_.fd(), kOfWake);
}

CallerGate::~CallerGate() {
  thread_.request_stop();
  ::eventfd_write(wake_.fd(), 1);
}

void CallerGate::Open(std::function<void(Descriptor)> serve) {
  {
    const std::lock_guard lock(serve_mutex_);
    serve_ = std::move(serve);
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void CallerGate::Close() {
  const std::lock_guard lock(serve_mutex_);
  serve_ = nullptr;
}

void CallerGate::Run(const std::stop_token& stop) {
  std::array<epoll_event, kMostEvents> events;
  while (!stop.stop_requested()) {
    const bool is_timed = [&] {
      const std::lock_guard lock(mutex_);
      return !guests_.empty() || !shut_out_.empty();
    }();
    const int count =
        ::epoll_wait(epoll_.fd(), events.data(), kMostEvents, is_timed ? kTickMs : -1);
    bool someone_waits = false;
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      someone_waits = someone_waits || event.data.u64 == kOfListener;
      if (event.data.u64 > kOfWake) Look(event.data.u64, event.events);
    }
    LookAtAll();
    if (someone_waits) AcceptSome();
  }
}

void CallerGate::AcceptSome() {
  for (int i = 0; i < kMostEvents; ++i) {
    Caller caller = Accept(listener_);
    const bool nobody_waits = caller.socket.fd() < 0 && errno == EAGAIN;
    if (caller.socket.fd() >= 0 && Admit(std::move(caller))) continue;
    // Out of places, or of descriptors, for example: those who wait stay in the backlog.
    if (!nobody_waits) std::this_thread::sleep_for(kPauseOfAccepting);
    return;
  }
}

// Returns false if there is no place. A caller that is shut out is not admitted either.
bool CallerGate::Admit(Caller caller) {
  const int on = 1;
  ::setsockopt(caller.socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Descriptor own(::fcntl(caller.socket.fd(), F_DUPFD_CLOEXEC, 0));
  if (own.fd() < 0) return false;
  {
    const std::lock_guard lock(mutex_);
    const SteadyTime now = clock_.SteadyNow();
    if (shut_out_.contains(caller.host)) return true;
    const GuestList::Id id = ++last_id_;
    const GuestList::Verdict verdict = places_.Admit(id, caller.host, now);
    if (verdict.evicted) Cut(guests_.find(*verdict.evicted));
    if (!verdict.admitted) return false;
    Guest guest{.socket = std::move(own),
                .peer = PeerOf(caller.socket.fd()),
                .host = caller.host,
                .deadline = now + limits_.patience};
    by_peer_[guest.peer] = id;
    // An event when a piece arrives, whether or not gRPC has read the earlier ones.
    WatchFor(EPOLLIN | EPOLLRDHUP | EPOLLET, epoll_.fd(), guest.socket.fd(), id);
    guests_.emplace(id, std::move(guest));
  }
  const std::lock_guard lock(serve_mutex_);
  if (serve_) serve_(std::move(caller.socket));
  return true;
}

void CallerGate::Look(GuestList::Id id, std::uint32_t events) {
  const std::lock_guard lock(mutex_);
  const auto guest = guests_.find(id);
  if (guest == guests_.end()) return;  // it has proved itself, or is cut
  if (BytesFrom(guest->second.socket.fd()) > kMostBytes) return CutAbuser(guest, kTooManyBytes);
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) Cut(guest);
}

// An event is lost if gRPC reads the bytes before this thread wakes up.
void CallerGate::LookAtAll() {
  const std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.SteadyNow();
  if (now < next_look_) return;
  next_look_ = now + std::chrono::milliseconds(kTickMs);
  for (auto next = guests_.begin(); next != guests_.end();) {
    const auto guest = next++;
    if (BytesFrom(guest->second.socket.fd()) > kMostBytes) CutAbuser(guest, kTooManyBytes);
  }
  while (!guests_.empty() && guests_.begin()->second.deadline <= now) Cut(guests_.begin());
  std::erase_if(shut_out_, [&](const auto& entry) { return entry.second <= now; });
}

bool CallerGate::BeginStream(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  const auto at = by_peer_.find(Decoded(peer));
  if (at == by_peer_.end()) return false;
  const auto guest = guests_.find(at->second);
  if (!std::exchange(guest->second.has_stream, true)) return true;
  CutAbuser(guest, "opened a second stream");
  return false;
}

void CallerGate::Prove(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  const auto at = by_peer_.find(Decoded(peer));
  if (at == by_peer_.end()) return;
  places_.Prove(at->second, clock_.SteadyNow());
  Forget(guests_.find(at->second));
}

void CallerGate::AddRefusal(Refusal why, const char* call) {
  const std::lock_guard lock(mutex_);
  refusals_.Add(why, call);
}

void CallerGate::CutAbuser(Guests::iterator guest, std::string_view reason) {
  const SteadyTime now = clock_.SteadyNow();
  shut_out_[guest->second.host] = now + kShutOutFor;
  ++cuts_;
  if (now >= next_log_of_cut_) {
    next_log_of_cut_ = now + kCutLogPeriod;
    LogWarning(fmt::format("closed the connection of {}: it {} before it proved that it knows the "
                           "job's token",
                           guest->second.peer, reason),
               {{"closed", cuts_}});
  }
  Cut(guest);
}

void CallerGate::Cut(Guests::iterator guest) {
  ::shutdown(guest->second.socket.fd(), SHUT_RDWR);
  Forget(guest);
}

// Closing the descriptor does not end epoll's events while gRPC has another.
void CallerGate::Forget(Guests::iterator guest) {
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, guest->second.socket.fd(), nullptr);
  places_.Remove(guest->first);
  const auto name = by_peer_.find(guest->second.peer);
  if (name != by_peer_.end() && name->second == guest->first) by_peer_.erase(name);
  guests_.erase(guest);
}

}  // namespace lockstep::train
