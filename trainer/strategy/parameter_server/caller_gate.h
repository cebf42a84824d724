// Accepts a parameter server's connections, and bounds what those cost whose callers have not
// proved yet that they know the job's token. gRPC 1.51 cannot: it bounds neither their number nor
// what they send, gives each stream a thread, and closes no connection.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/listener.h"
#include "trainer/rendezvous/gate/guest_list.h"
#include "trainer/rendezvous/gate/refusals.h"

namespace lockstep::train {

struct CallerLimits {
  std::size_t at_once = 64;  // without a proof
  // How long a caller may take to answer its challenge. On a loaded host it may need a second.
  Duration patience = std::chrono::seconds(5);
};

// gRPC gets the connections themselves: a relay, as connection_gate.h has, would copy every float.
// Until the proof, this has a second descriptor of each, to cut it: if the caller is late, sends
// more than 16 KiB, or opens a second stream. For the last two, no connection from its address is
// accepted for 250 ms: gRPC may have taken some more, which costs it megabytes. When there are as
// many as may be, a newcomer takes the place of another as guest_list.h says. Thread-safe.
class CallerGate {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 10;

  // Listens at `address` (see ListenAt) without accepting connections yet. Raises the process's
  // limit of open files to its hard limit. Unavailable says why it cannot listen.
  static absl::StatusOr<std::unique_ptr<CallerGate>> Listen(const std::string& address,
                                                            const CallerLimits& limits,
                                                            const Clock& clock);
  ~CallerGate();
  int port() const { return listener_.port; }
  // Starts to accept connections. The gate's thread calls `serve` with each.
  void Open(std::function<void(Descriptor)> serve);
  // `serve` is not called after it returns. Connections stay.
  void Close();

  // A stream begins on the connection with this name, as grpc::ServerContext::peer has it. False:
  // it is not the connection's first, which cuts those without a proof.
  bool BeginStream(const std::string& peer);
  // The connection's caller has proved that it knows the token.
  void Prove(const std::string& peer);
  // A caller is refused. Logs so, as Refusals does.
  void AddRefusal(Refusal why, const char* call);

 private:
  struct Guest {
    Descriptor socket;
    std::string peer, host;
    SteadyTime deadline;
    bool has_stream = false;
  };
  using Guests = std::map<GuestList::Id, Guest>;

  CallerGate(Listener listener, const CallerLimits& limits, const Clock& clock);
  void Run(const std::stop_token& stop);
  void AcceptSome();
  bool Admit(Caller caller);
  void Look(GuestList::Id id, std::uint32_t events);
  void LookAtAll();
  void CutAbuser(Guests::iterator guest, std::string_view reason);
  void Cut(Guests::iterator guest);
  void Forget(Guests::iterator guest);

  const Listener listener_;
  const CallerLimits limits_;
  const Clock& clock_;
  const Descriptor epoll_, wake_;
  std::mutex serve_mutex_;
  std::function<void(Descriptor)> serve_;  // guarded by serve_mutex_; empty: closed
  std::mutex mutex_;                       // guards the rest
  GuestList places_;
  Guests guests_;
  std::map<std::string, GuestList::Id> by_peer_;
  std::map<std::string, SteadyTime> shut_out_;  // hosts, until when
  GuestList::Id last_id_;
  SteadyTime next_look_{};  // at all guests
  Refusals refusals_;
  std::int64_t cuts_ = 0;
  SteadyTime next_log_of_cut_{};
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
