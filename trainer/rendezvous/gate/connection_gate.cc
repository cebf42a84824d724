#include "trainer/rendezvous/gate/connection_gate.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/hmac.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/identity/parse_text.h"

namespace lockstep::train {
namespace {

constexpr int kBacklog = 4096;
// The most connections to accept before existing ones are handled again.
constexpr int kAcceptedInATurn = 64;
// The pause after a refusal. Refused callers retry soon; 64 per pause, 12,800 per second, suffice.
constexpr Duration kPause = std::chrono::milliseconds(5);
constexpr Duration kTick = std::chrono::milliseconds(100);
// The least time that a guest occupies a place: gRPC frees a closed connection's memory later.
constexpr Duration kShortestStay = std::chrono::milliseconds(500);
// How long to keep trying to send the last bytes to a caller that does not read them.
constexpr Duration kLinger = std::chrono::seconds(5);

constexpr Duration kCutLogPeriod = std::chrono::seconds(10);

constexpr std::uint64_t kListenerKey = 0, kWakeKey = 1;  // a relay's are above: ids start at 1

constexpr char kPeerScheme[] = "unix-abstract:";  // gRPC's prefix for MakePair's names

std::string RandomName() {
  std::string name = "lockstep-gate-";
  for (const char byte : RandomBytes(8)) {
    name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return name + "-";
}

struct Pair {
  Descriptor ours, theirs;
};

// Returns connected sockets; the peer of `theirs` has the address `name`. Nothing can connect to
// that address, because its socket does not listen.
std::optional<Pair> MakePair(const std::string& name) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return {};
  Pair pair{Descriptor(ends[0]), Descriptor(ends[1])};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // abstract names start with a 0
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(pair.ours.fd(), generic, length) != 0) return {};
  return pair;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(const std::string& address,
                                                                       std::size_t members,
                                                                       const Clock& clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(Listener listener, ListenAt(address, kBacklog));
  RaiseDescriptorLimit();  // a caller takes three descriptors
  return std::unique_ptr<ConnectionGate>(new ConnectionGate(std::move(listener), members, clock));
}

ConnectionGate::ConnectionGate(Listener listener, std::size_t members, const Clock& clock)
    : listener_(std::move(listener)),
      most_guests_(members + kPlacesForStrangers),
      clock_(clock),
      names_(RandomName()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      guests_(most_guests_) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeKey}};
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, wake_.fd(), &event);
}

ConnectionGate::~ConnectionGate() {
  thread_.request_stop();
  ::eventfd_write(wake_.fd(), 1);
}

void ConnectionGate::Open(std::function<void(Descriptor)> serve) {
  {
    const std::lock_guard lock(serve_mutex_);
    serve_ = std::move(serve);
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void ConnectionGate::Close() {
  const std::lock_guard lock(serve_mutex_);
  serve_ = nullptr;
}

void ConnectionGate::Prove(const std::string& peer) {
  const std::string start = kPeerScheme + names_;
  if (!peer.starts_with(start)) return;
  const std::optional<std::int64_t> id = ParseInt64(peer.substr(start.size()));
  if (!id) return;
  {
    const std::lock_guard lock(proven_mutex_);
    proven_.push_back(static_cast<GuestList::Id>(*id));
  }
  ::eventfd_write(wake_.fd(), 1);
}

void ConnectionGate::Run(const std::stop_token& stop) {
  std::array<epoll_event, 256> events;
  while (!stop.stop_requested()) {
    const bool may_accept = clock_.SteadyNow() >= accept_at_;
    if (may_accept != listening_) {
      epoll_event event{.events = EPOLLIN, .data = {.u64 = kListenerKey}};
      ::epoll_ctl(epoll_.fd(), may_accept ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_.socket.fd(),
                  &event);
      listening_ = may_accept;
    }
    const int count = ::epoll_wait(epoll_.fd(), events.data(), events.size(), TimeoutMillis());
    bool someone_waits = false;
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      someone_waits |= event.data.u64 == kListenerKey;
      if (event.data.u64 != kListenerKey) Handle(event);
    }
    const SteadyTime now = clock_.SteadyNow();
    Introduce();  // after reading the clock: a guest proven by `now` is not late
    EndLate(now);
    if (someone_waits) AcceptSome(now);
  }
}

int ConnectionGate::TimeoutMillis() const {
  if (!listening_) return static_cast<int>(kPause / std::chrono::milliseconds(1));
  const bool timed = guests_.size() > 0 || !lingering_.empty() || !leaving_.empty();
  return timed ? static_cast<int>(kTick / std::chrono::milliseconds(1)) : -1;
}

void ConnectionGate::Handle(const epoll_event& event) {
  if (event.data.u64 == kWakeKey) {
    eventfd_t wakes = 0;
    ::eventfd_read(wake_.fd(), &wakes);
    return;
  }
  const auto at = connections_.find(Relay::IdOf(event.data.u64));
  if (at == connections_.end()) return;  // erased earlier in this loop
  at->second.relay.Handle(Relay::SideOf(event.data.u64), event.events);
  Settle(at);
}

bool ConnectionGate::MaySend(GuestList::Id id, FrameCounter& sent, std::string_view piece) {
  if (!guests_.contains(id)) return true;
  sent.Feed(piece);
  if (sent.bytes() <= kMostGuestBytes && sent.streams() <= kMostGuestStreams &&
      sent.frames() <= kMostGuestFrames) {
    return true;
  }
  Introduce();
  if (!guests_.contains(id)) return true;
  NoteCut(id, sent);
  return false;
}

void ConnectionGate::NoteCut(GuestList::Id id, const FrameCounter& sent) {
  ++cuts_;
  const SteadyTime now = clock_.SteadyNow();
  if (now < next_log_) return;
  next_log_ = now + kCutLogPeriod;
  LogWarning(
      fmt::format("closed a connection from {}: before it proved that it knows the job's token, it "
                  "sent {} bytes, {} frames and {} streams, expected at most {}, {} and {}",
                  HostText(connections_.at(id).host), sent.bytes(), sent.frames(), sent.streams(),
                  kMostGuestBytes, kMostGuestFrames, kMostGuestStreams),
      {{"closed", cuts_}});
}

// True if the places of leaving guests are used up and this host has its share of them.
bool ConnectionGate::IsCrowded(const std::string& host) const {
  const auto from = leaving_from_.find(host);
  return leaving_.size() >= most_guests_ && from != leaving_from_.end() &&
         from->second * leaving_from_.size() >= most_guests_;
}

void ConnectionGate::Leave(GuestList::Id id) {
  const Connection& connection = connections_.at(id);
  const bool is_new =
      leaving_.try_emplace(id, connection.since + kShortestStay, connection.host).second;
  if (is_new) ++leaving_from_[connection.host];
}

void ConnectionGate::Dismiss(GuestList::Id id) {
  const auto at = connections_.find(id);
  at->second.relay.Dismiss();
  Settle(at);
}

// Updates the bookkeeping after anything that may have closed one of the relay's ends.
void ConnectionGate::Settle(Connections::iterator at) {
  const GuestList::Id id = at->first;
  const Relay& relay = at->second.relay;
  if (relay.fd(Relay::kCaller) < 0 && guests_.contains(id)) {
    guests_.Remove(id);
    Leave(id);
  }
  if (relay.done()) {
    if (guests_.contains(id)) Leave(id);
    guests_.Remove(id);
    lingering_.erase(id);
    connections_.erase(at);
    return;
  }
  if (relay.fd(Relay::kServer) < 0) lingering_.emplace(id, clock_.SteadyNow() + kLinger);
}

void ConnectionGate::AcceptSome(SteadyTime now) {
  for (int i = 0; i < kAcceptedInATurn; ++i) {
    if (leaving_.size() >= 2 * most_guests_) {
      accept_at_ = now + kPause;
      return;
    }
    Caller caller = Accept(listener_);
    if (caller.socket.fd() >= 0) {
      Admit(std::move(caller), now);
      continue;
    }
    // Out of descriptors, for example: pause and retry; waiting callers stay in the backlog.
    if (errno != EAGAIN && errno != ECONNABORTED) accept_at_ = now + kPause;
    return;
  }
}

void ConnectionGate::Admit(Caller caller, SteadyTime now) {
  if (IsCrowded(caller.host)) {
    accept_at_ = now + kPause;
    return;
  }
  guests_.SetMost(most_guests_);
  const GuestList::Id id = next_id_++;
  std::optional<Pair> pair = MakePair(names_ + std::to_string(id));
  const GuestList::Verdict verdict =
      pair ? guests_.Admit(id, caller.host, now) : GuestList::Verdict();
  if (verdict.evicted) {
    Leave(*verdict.evicted);
    Dismiss(*verdict.evicted);
  }
  if (!verdict.admitted) {
    accept_at_ = now + kPause;
    return;
  }
  const int on = 1;
  ::setsockopt(caller.socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Relay relay(std::move(caller.socket), std::move(pair->ours),
              [this, id, sent = FrameCounter()](std::string_view piece) mutable {
                return MaySend(id, sent, piece);
              });
  const auto at =
      connections_.emplace(id, Connection{std::move(relay), now, std::move(caller.host)}).first;
  at->second.relay.Watch(epoll_.fd(), id);
  const std::lock_guard lock(serve_mutex_);
  if (serve_) serve_(std::move(pair->theirs));  // otherwise closes both ends
}

// Removes the connections that were proven from the guests.
void ConnectionGate::Introduce() {
  std::vector<GuestList::Id> proven;
  {
    const std::lock_guard lock(proven_mutex_);
    proven.swap(proven_);
  }
  for (const GuestList::Id id : proven) guests_.Prove(id, clock_.SteadyNow());
}

void ConnectionGate::EndLate(SteadyTime now) {
  for (const GuestList::Id id : guests_.Overdue(now)) Dismiss(id);
  std::erase_if(leaving_, [&](const auto& left) {
    const auto& [id, leaver] = left;
    if (leaver.until > now || connections_.contains(id)) return false;
    const auto from = leaving_from_.find(leaver.host);
    if (--from->second == 0) leaving_from_.erase(from);
    return true;
  });
  for (auto at = lingering_.begin(); at != lingering_.end();) {
    const auto [id, deadline] = *at++;
    if (deadline <= now) Dismiss(id);
  }
}

}  // namespace lockstep::train
