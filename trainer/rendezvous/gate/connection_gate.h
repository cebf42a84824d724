// Limits the connections to the leader's gRPC server. gRPC 1.51 bounds neither their number nor the
// memory that one can take: it checks a message's size only once all of it has arrived, and an
// exhausted ResourceQuota refuses newcomers and cancels members' calls, the longest connected
// first. So callers connect here and must prove within a few bytes that they belong to the job.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/listener.h"
#include "base/relay.h"
#include "trainer/rendezvous/gate/frame_counter.h"
#include "trainer/rendezvous/gate/guest_list.h"

namespace lockstep::train {

// Accepts connections and relays each to a socket pair whose other end the server gets. Until
// Prove, a connection is a guest, limited to 10 s, 16 KiB and a few streams. The gate logs, at most
// every 10 s, that it has closed connections which sent more than that. There are places for
// all members, which may connect at once, and for kPlacesForStrangers more. As many guests again
// may have closed while the server still frees their memory; beyond that, the gate turns away hosts
// with more than their share of those, so that others get in. This bounds what strangers can make
// the server hold, whatever they send. Proven members are not limited. Thread-safe.
class ConnectionGate {
 public:
  static constexpr std::size_t kPlacesForStrangers = 128;
  static constexpr std::size_t kMostGuestBytes = std::size_t{16} << 10;
  // gRPC limits only open streams, but one that is opened and reset costs it as much.
  static constexpr std::size_t kMostGuestStreams = 8;
  static constexpr std::size_t kMostGuestFrames = 64;

  // Listens at `address` (see ListenAt) without accepting connections yet. Raises the process's
  // limit of open files to its hard limit. Unavailable says why it cannot listen.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const std::string& address,
                                                                std::size_t members,
                                                                const Clock& clock);
  ~ConnectionGate();
  int port() const { return listener_.port; }
  // Sets how many members there are. May be called at any time.
  void SetMembers(std::size_t members) { most_guests_ = members + kPlacesForStrangers; }
  // Starts to accept connections. The gate's thread calls `serve` with a socket for each;
  // getpeername returns a unique name for it.
  void Open(std::function<void(Descriptor)> serve);
  // Stops serving new connections: `serve` is not called after it returns. Existing ones stay.
  void Close();
  // Declares that the connection with this peer name, as gRPC formats it, belongs to the job. Call
  // it before the caller is answered, so that it covers all that the caller sends after the answer.
  void Prove(const std::string& peer);

 private:
  struct Connection {
    Relay relay;
    SteadyTime since;
    std::string host;
  };
  using Connections = std::map<GuestList::Id, Connection>;

  ConnectionGate(Listener listener, std::size_t members, const Clock& clock);
  void Run(const std::stop_token& stop);
  int TimeoutMillis() const;
  void Handle(const epoll_event& event);
  bool MaySend(GuestList::Id id, FrameCounter& sent, std::string_view piece);
  void NoteCut(GuestList::Id id, const FrameCounter& sent);
  bool IsCrowded(const std::string& host) const;
  void Leave(GuestList::Id id);
  void AcceptSome(SteadyTime now);
  void Admit(Caller caller, SteadyTime now);
  void Introduce();
  void Dismiss(GuestList::Id id);
  void Settle(Connections::iterator at);
  void EndLate(SteadyTime now);

  const Listener listener_;
  std::atomic<std::size_t> most_guests_;
  const Clock& clock_;
  const std::string names_;  // prefix of this gate's socket names; the connection's id follows
  const Descriptor epoll_, wake_;
  std::mutex serve_mutex_;
  std::function<void(Descriptor)> serve_;  // guarded by serve_mutex_; empty: closed
  std::mutex proven_mutex_;
  std::vector<GuestList::Id> proven_;  // guarded by proven_mutex_

  // Used only by the gate's thread.
  GuestList guests_;
  Connections connections_;
  struct Leaver {
    SteadyTime until;  // frees its place from then on, once the server has closed its end
    std::string host;
  };
  std::map<GuestList::Id, Leaver> leaving_;          // were guests when their callers left
  std::map<std::string, std::size_t> leaving_from_;  // counts of leaving_, by host
  std::map<GuestList::Id, SteadyTime> lingering_;    // server end closed: the caller's deadline
  GuestList::Id next_id_ = 1;
  SteadyTime accept_at_{};  // accepts no earlier
  bool listening_ = false;  // epoll watches the listener
  std::int64_t cuts_ = 0;   // connections that sent too much
  SteadyTime next_log_{};
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
