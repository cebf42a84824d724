#include "tests/support/loopback_server.h"

#include <tuple>
#include <utility>

#include "tests/support/loopback.h"

namespace lockstep::testing {

LoopbackServer::LoopbackServer(std::function<void(int socket)> serve) : serve_(std::move(serve)) {
  std::tie(listener_, port_) = ListenOnLoopback();
  acceptor_ = std::thread([this] { Accept(); });
}

LoopbackServer::~LoopbackServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  }
  for (std::thread& servant : servants_) servant.join();
  for (const int socket : sockets_) close(socket);
  close(listener_);
}

int LoopbackServer::connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(sockets_.size());
}

void LoopbackServer::Accept() {
  while (true) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    servants_.emplace_back([this, socket] {
      serve_(socket);
      shutdown(socket, SHUT_RDWR);
    });
  }
}

}  // namespace lockstep::testing
