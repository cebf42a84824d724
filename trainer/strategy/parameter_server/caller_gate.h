// Accepts a parameter server's connections, and limits the cost of those whose callers have not yet
// proved that they know the job's token. gRPC 1.51 cannot: it limits neither their number nor what
// they send, gives each stream a thread, and closes no connection.
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
  std::size_t at_once = 64;  // connections without a proof
  // How long a caller may take to answer its challenge. On a loaded host it may need a second.
  Duration patience = std::chrono::seconds(5);
};

// gRPC gets the connections themselves: a relay, as connection_gate.h has, would copy every float.
// Until a connection's caller has proved itself, the gate holds a second descriptor of the
// connection, and cuts it if the caller is late, sends more than 16 KiB, or opens a second stream.
// After either of the last two, new connections from the same address are closed at once for
// 250 ms, because gRPC may have taken more than that before the cut, which costs it megabytes. When
// all places are taken, a newcomer is given another's place or is closed: see guest_list.h.
// Thread-safe.
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
  // Stops serving new connections: `serve` is not called after Close returns. Existing ones stay.
  void Close();

  // Records that a stream begins on the connection with this name, as grpc::ServerContext::peer has
  // it. Returns false if it is not the connection's first stream, or the connection was cut. A
  // second stream before the proof cuts the connection.
  bool BeginStream(const std::string& peer);
  // Records that the connection's caller has proved that it knows the token: the connection is no
  // longer limited. Does nothing if it was cut.
  void Prove(const std::string& peer);
  // Counts a caller that is refused, and logs it as Refusals does.
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
  std::map<std::string, SteadyTime> shut_out_;  // by host: until when
  GuestList::Id last_id_;
  SteadyTime next_look_{};  // at all guests
  Refusals refusals_;
  std::int64_t cuts_ = 0;
  SteadyTime next_log_of_cut_{};
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
