// Relays bytes between two stream sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/descriptor.h"

namespace lockstep {

// Never blocks: an epoll instance (see Watch) tells when a side is ready. Buffers at most one read
// per side, so a side that does not take its bytes stops the other. When a side has hung up,
// however, it reads and buffers everything that the side's socket still holds. When the caller is
// gone, signals the end of input to the server once the server has taken everything, and discards
// the server's output until the server closes. Not thread-safe.
class Relay {
 public:
  enum Side { kCaller = 0, kServer = 1 };

  // Called with each piece that the caller has sent, before it is passed on. If it returns false,
  // the piece is dropped and the caller's end is closed.
  using Check = std::function<bool(std::string_view piece)>;

  // Requires: both sockets are non-blocking.
  Relay(Descriptor caller, Descriptor server, Check check)
      : ends_{{std::move(caller)}, {std::move(server)}}, check_(std::move(check)) {}

  // Registers both sockets with `epoll`, which must outlive the relay, for the events that each
  // side wants. The events carry KeyOf(id, side). Must be called at most once.
  void Watch(int epoll, std::uint64_t id);
  static std::uint64_t KeyOf(std::uint64_t id, Side side) { return id * 2 + side; }
  static std::uint64_t IdOf(std::uint64_t key) { return key / 2; }
  static Side SideOf(std::uint64_t key) { return key % 2 == kCaller ? kCaller : kServer; }

  // Handles a side's epoll events. Closes sockets that have reached their end.
  void Handle(Side side, std::uint32_t events);
  // Returns the events to wait for. Changes with Handle and Dismiss.
  std::uint32_t Wanted(Side side) const;
  int fd(Side side) const { return ends_[side].socket.fd(); }  // -1 if closed
  // Returns true if the side has taken everything that was received for it.
  bool HasAll(Side side) const { return ends_[side].waiting.empty(); }
  // Closes the caller's end. Drops what the server has not taken yet.
  void Dismiss();
  // Returns true once the server has closed its end, and the caller has got everything or is gone
  // too.
  bool done() const {
    return fd(kServer) < 0 && (fd(kCaller) < 0 || ends_[kCaller].waiting.empty());
  }

 private:
  enum class Read { kSome, kNothing, kEnd };
  struct End {
    Descriptor socket;
    std::string waiting = {};   // bytes to send to it
    std::uint32_t watched = 0;  // the events that epoll waits for
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
  int epoll_ = -1;  // -1 before Watch
  std::uint64_t id_ = 0;
};

}  // namespace lockstep
