#include "tests/support/fault_proxy.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>

#include "tests/support/loopback.h"

namespace lockstep::testing {
namespace {

constexpr int kLookMilliseconds = 5;  // how soon an idle connection notices a change of mode

}  // namespace

FaultProxy::FaultProxy(int upstream_port) : upstream_port_(upstream_port) {
  std::tie(listener_, port_) = ListenOnLoopback();
  acceptor_ = std::thread([this] { Accept(); });
}

FaultProxy::~FaultProxy() {
  closing_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (const auto& pair : pairs_) pair->pump.join();
  close(listener_);
}

void FaultProxy::CutAfter(int bytes) {
  const std::lock_guard lock(mutex_);
  for (const auto& pair : pairs_) pair->bytes_left = bytes;
}

void FaultProxy::Accept() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    ++accepted_;
    const int server = mode_ == Mode::kRefuse ? -1 : ConnectToLoopback(upstream_port_);
    if (server < 0) {
      close(client);
      continue;
    }
    const int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::lock_guard lock(mutex_);
    Pair& pair = *pairs_.emplace_back(std::make_unique<Pair>());
    pair.client = client;
    pair.server = server;
    pair.pump = std::thread([this, &pair] { Pump(pair); });
  }
}

void FaultProxy::Pump(Pair& pair) {
  bool open = true;
  while (open && !closing_ && pair.bytes_left != 0) {
    std::array<pollfd, 2> ready{{{pair.client, POLLIN, 0}, {pair.server, POLLIN, 0}}};
    if (mode_ == Mode::kFrozen) {
      poll(nullptr, 0, kLookMilliseconds);
      continue;
    }
    if (poll(ready.data(), ready.size(), kLookMilliseconds) <= 0) continue;
    if (ready[0].revents != 0) open = Move(pair.client, pair.server, pair, false);
    if (open && ready[1].revents != 0) open = Move(pair.server, pair.client, pair, true);
  }
  close(pair.client);
  close(pair.server);
}

// Returns false if the connection has ended.
bool FaultProxy::Move(int from, int to, Pair& pair, bool from_server) {
  std::array<char, 16384> bytes{};
  std::size_t most = bytes.size();
  const int left = pair.bytes_left;
  if (from_server && left > 0) most = std::min(most, static_cast<std::size_t>(left));
  const ssize_t count = recv(from, bytes.data(), most, 0);
  if (count <= 0) return false;
  const std::string_view piece(bytes.data(), static_cast<std::size_t>(count));
  if (from_server && left > 0) pair.bytes_left = left - static_cast<int>(count);
  if (!from_server || mode_ != Mode::kByteByByte) return SendAll(to, piece);
  return std::ranges::all_of(piece, [to](const char& byte) { return SendAll(to, {&byte, 1}); });
}

}  // namespace lockstep::testing
