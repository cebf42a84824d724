#include "base/relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace lockstep {
namespace {

constexpr std::size_t kReadSize = 16384;

bool IsReadyLater() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

void Relay::Watch(int epoll, std::uint64_t id) {
  epoll_ = epoll;
  id_ = id;
  for (const Side side : {kCaller, kServer}) {
    epoll_event event{.events = 0, .data = {.u64 = KeyOf(id, side)}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd(side), &event);
  }
  UpdateWatch();
}

void Relay::UpdateWatch() {
  for (const Side side : {kCaller, kServer}) {
    const std::uint32_t wanted = Wanted(side);
    if (epoll_ < 0 || fd(side) < 0 || wanted == ends_[side].watched) continue;
    epoll_event event{.events = wanted, .data = {.u64 = KeyOf(id_, side)}};
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd(side), &event);
    ends_[side].watched = wanted;
  }
}

void Relay::Handle(Side side, std::uint32_t events) {
  Exchange(side, events);
  UpdateWatch();
}

void Relay::Exchange(Side side, std::uint32_t events) {
  if (fd(side) < 0) return;
  const bool hung_up = (events & (EPOLLHUP | EPOLLERR)) != 0;
  if ((events & EPOLLOUT) != 0) Flush(side);
  if (!hung_up && (events & EPOLLIN) == 0) return;
  Read read = Receive(side);
  // Reads to the end, since epoll would report the hang-up endlessly.
  while (hung_up && read == Read::kSome) read = Receive(side);
  if (hung_up || read == Read::kEnd) Close(side);
}

void Relay::Dismiss() {
  ends_[kServer].waiting = std::string();
  Close(kCaller);
  UpdateWatch();
}

std::uint32_t Relay::Wanted(Side side) const {
  if (fd(side) < 0) return 0;
  const bool discards = side == kServer && fd(kCaller) < 0;
  const bool reads = discards || (fd(Other(side)) >= 0 && ends_[Other(side)].waiting.empty());
  const bool writes = !ends_[side].waiting.empty();
  return (reads ? std::uint32_t{EPOLLIN} : 0u) | (writes ? std::uint32_t{EPOLLOUT} : 0u);
}

Relay::Read Relay::Receive(Side side) {
  if (fd(side) < 0) return Read::kNothing;
  std::array<char, kReadSize> bytes;
  const ssize_t count = ::recv(fd(side), bytes.data(), bytes.size(), 0);
  if (count < 0 && IsReadyLater()) return Read::kNothing;
  if (count <= 0) return Read::kEnd;
  const auto size = static_cast<std::size_t>(count);
  if (side == kCaller && !check_({bytes.data(), size})) return Read::kEnd;
  if (fd(Other(side)) < 0) return Read::kSome;  // discarded: the other side is closed
  ends_[Other(side)].waiting.append(bytes.data(), size);
  Flush(Other(side));
  return Read::kSome;
}

void Relay::Flush(Side side) {
  std::string& waiting = ends_[side].waiting;
  if (fd(side) < 0 || waiting.empty()) return;
  const ssize_t sent = ::send(fd(side), waiting.data(), waiting.size(), MSG_NOSIGNAL);
  if (sent < 0 && !IsReadyLater()) return Close(side);
  if (sent > 0) waiting.erase(0, static_cast<std::size_t>(sent));
  if (!waiting.empty()) return;
  waiting = std::string();  // frees the memory: tens of thousands of connections are idle
  if (side == kServer) EndServersInput();
}

void Relay::Close(Side side) {
  ends_[side].socket.Close();
  ends_[side].waiting = std::string();
  if (side == kCaller) EndServersInput();
}

void Relay::EndServersInput() {
  const bool over = fd(kCaller) < 0 && fd(kServer) >= 0 && ends_[kServer].waiting.empty();
  if (over) ::shutdown(fd(kServer), SHUT_WR);
}

}  // namespace lockstep
