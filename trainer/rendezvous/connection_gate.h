// The leader's front door. Its gRPC, 1.51, bounds neither how many connect nor what one of them may
// make it hold: a message's size is looked at when all of it has come, and a ResourceQuota that is
// used up refuses newcomers and cancels calls of members, the longest connected first. So callers
// come through here, and have to show in a few bytes that they belong to the job.
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
#include "base/listener.h"
#include "base/relay.h"
#include "trainer/rendezvous/frame_counter.h"
#include "trainer/rendezvous/guest_list.h"

namespace lockstep::train {

// Accepts connections, and relays each to a socket that the server gets. Until Prove, a connection
// is a guest, for at most ten seconds, 16 KiB and a few streams. There are places for all members,
// which may come at once, and for some strangers. As many guests again may have left while the
// server is not yet done with them; beyond that, whoever has more of those than others is turned
// away, so that others come in. What strangers can make the server hold is bounded by that,
// whatever they send; members are not limited. Thread-safe.
class ConnectionGate {
 public:
  static constexpr std::size_t kPlacesForStrangers = 128;
  static constexpr std::size_t kMostGuestBytes = std::size_t{16} << 10;
  // gRPC bounds how many are open at a time. One that is opened and reset costs it as much.
  static constexpr std::size_t kMostGuestStreams = 8;
  static constexpr std::size_t kMostGuestFrames = 64;

  // Listens, but accepts nobody yet; an address as for ListenAt. Unavailable says why not. Raises
  // the process's limit of open files to the highest that it may have.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const std::string& address,
                                                                std::size_t members,
                                                                const Clock& clock);
  ~ConnectionGate();
  int port() const { return listener_.port; }
  // Begins to accept. `serve` gets a socket for each caller, of which getpeername says a name that
  // no other connection has. It is called on the gate's thread.
  void Open(std::function<void(Socket)> serve);
  // Serves nobody more: `serve` is not called again. What is connected stays.
  void Close();
  // The caller behind the socket with this peer, as gRPC writes it, belongs to the job. Called
  // before the caller is answered, it holds for all that it sends from then on.
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
  bool IsCrowded(const std::string& host) const;
  void Leave(GuestList::Id id);
  void AcceptSome(SteadyTime now);
  void Admit(Caller caller, SteadyTime now);
  void Introduce();
  void Dismiss(GuestList::Id id);
  void Settle(Connections::iterator at);
  void EndLate(SteadyTime now);

  const Listener listener_;
  const std::size_t most_guests_;
  const Clock& clock_;
  const std::string names_;  // of this gate's sockets, each followed by the connection's number
  const Socket epoll_, wake_;
  std::mutex serve_mutex_;
  std::function<void(Socket)> serve_;  // guarded by serve_mutex_; empty: closed
  std::mutex proven_mutex_;
  std::vector<GuestList::Id> proven_;  // guarded by proven_mutex_

  // Of the thread.
  GuestList guests_;
  Connections connections_;
  struct Leaver {
    SteadyTime until;  // its place is free then, if the server has closed its end
    std::string host;
  };
  std::map<GuestList::Id, Leaver> leaving_;          // guests until their callers were gone
  std::map<std::string, std::size_t> leaving_from_;  // how many, by host
  std::map<GuestList::Id, SteadyTime> lingering_;  // the server is done; by when the caller must be
  GuestList::Id next_id_ = 1;
  SteadyTime accept_at_{};  // not before
  bool listening_ = false;  // epoll watches the listener
  std::jthread thread_;     // last: it uses all of the above
};

}  // namespace lockstep::train
