// A TCP proxy on a loopback port that misbehaves on demand. Independent of the protocol.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::testing {

// Thread-safe.
class FaultProxy {
 public:
  enum class Mode {
    kForward,
    kByteByByte,  // each byte from the server is sent by itself
    kFrozen,      // connections stay open but pass nothing, as if a peer had lost power
    kRefuse,      // new connections are closed at once; old ones continue
  };

  explicit FaultProxy(int upstream_port);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  int port() const { return port_; }
  void SetMode(Mode mode) { mode_ = mode; }
  // Closes each existing connection after `bytes` more from the server.
  void CutAfter(int bytes);
  // Returns the number of connections accepted so far.
  int connections() const { return accepted_; }

 private:
  struct Pair {
    int client = -1, server = -1;
    std::atomic<int> bytes_left{-1};  // from the server; negative: no limit
    std::thread pump;
  };
  void Accept();
  void Pump(Pair& pair);
  bool Move(int from, int to, Pair& pair, bool from_server);

  const int upstream_port_;
  int listener_ = -1, port_ = 0;
  std::atomic<Mode> mode_{Mode::kForward};
  std::atomic<bool> closing_{false};
  std::atomic<int> accepted_{0};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Pair>> pairs_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace lockstep::testing
