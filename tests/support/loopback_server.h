// A TCP server on a loopback port, which serves each connection on a thread of its own.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::testing {

class LoopbackServer {
 public:
  // Calls `serve` on each connection's thread, and ends the connection when it returns.
  explicit LoopbackServer(std::function<void(int socket)> serve);
  ~LoopbackServer();  // shuts all connections down, and waits for their threads
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  int port() const { return port_; }
  int connections() const;  // so far

 private:
  void Accept();

  const std::function<void(int socket)> serve_;
  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::vector<int> sockets_;           // guarded by mutex_
  std::vector<std::thread> servants_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace lockstep::testing
