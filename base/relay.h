// Two stream sockets of which each gets what the other receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/listener.h"

namespace lockstep {

// Not thread-safe, and never blocks: an epoll, see Watch, says when a side is ready. Holds no more
// than one read of each side: whoever does not take its bytes stops the other's. When the caller is
// gone, the server is told, and what it still says is thrown away until it closes its end.
class Relay {
 public:
  enum Side { kCaller = 0, kServer = 1 };

  // Asked for each piece that the caller has sent, before the server gets any of it. False: the
  // server does not get it, and the caller's end is closed.
  using Check = std::function<bool(std::string_view piece)>;

  // Neither socket may block.
  Relay(Socket caller, Socket server, Check check)
      : ends_{{std::move(caller)}, {std::move(server)}}, check_(std::move(check)) {}

  // From now on this epoll, which must outlive the relay, waits for what each side is ready to do.
  // Its events carry KeyOf(id, side). Called once at most.
  void Watch(int epoll, std::uint64_t id);
  static std::uint64_t KeyOf(std::uint64_t id, Side side) { return id * 2 + side; }
  static std::uint64_t IdOf(std::uint64_t key) { return key / 2; }
  static Side SideOf(std::uint64_t key) { return key % 2 == kCaller ? kCaller : kServer; }

  // What epoll says of a side. Closes sockets that have come to their end.
  void Handle(Side side, std::uint32_t events);
  // What there is to wait for; changes with Handle and Dismiss.
  std::uint32_t Wanted(Side side) const;
  int fd(Side side) const { return ends_[side].socket.fd(); }  // -1: closed
  // A side has taken all that was received for it.
  bool HasAll(Side side) const { return ends_[side].waiting.empty(); }
  // Closes the caller's end.
  void Dismiss();
  // The server has closed its end, and the caller has all that it said, or is gone too.
  bool done() const {
    return fd(kServer) < 0 && (fd(kCaller) < 0 || ends_[kCaller].waiting.empty());
  }

 private:
  enum class Read { kSome, kNothing, kEnd };
  struct End {
    Socket socket;
    std::string waiting = {};   // to be sent to it
    std::uint32_t watched = 0;  // what epoll waits for
  };
  static Side Other(Side side) { return side == kCaller ? kServer : kCaller; }
  Read Receive(Side side);
  void Flush(Side side);
  void Close(Side side);
  void EndServersInput();
  void Exchange(Side side, std::uint32_t events);
  void UpdateWatch();

  End ends_[2];
  Check check_;
  int epoll_ = -1;  // Watch has not been called
  std::uint64_t id_ = 0;
};

}  // namespace lockstep
