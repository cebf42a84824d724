// The operator's connections to the programs of tenants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/listener.h"
#include "base/relay.h"

namespace lockstep::progress {

// gRPC, 1.51, reads whatever comes: of headers without end it keeps a gigabyte a second, beyond the
// end of the call, and it has no bound on them. So it gets one end of a pair of sockets, and the
// pod's connection is relayed to the other as long as no more comes than a question may have for an
// answer. Thread-safe.
class PodConnections {
 public:
  using Id = std::uint64_t;
  explicit PodConnections(std::size_t most_bytes);  // of a pod, for each question
  ~PodConnections();                                // breaks off all of them
  PodConnections(const PodConnections&) = delete;
  PodConnections& operator=(const PodConnections&) = delete;

  struct Opened {
    Id id = 0;
    Socket socket;  // does not block; to be closed by whoever uses it
  };
  // Does not wait until the pod answers: a connection that fails is closed like one that breaks.
  // `host` is an IP address. InvalidArgument if not; Unavailable says why there is none.
  absl::StatusOr<Opened> Open(const std::string& host, int port);
  // Relays `most_bytes` more from now on, as after Open; the connection ends at the first byte
  // beyond them. Returns false, and allows nothing, if KeepsUp(id) is false.
  bool Allow(Id id);
  // True if the connection is open and the pod has taken all that was sent to it. gRPC holds what
  // the pod does not take, and has no bound on it.
  bool KeepsUp(Id id) const;
  std::size_t size() const;  // how many there are

 private:
  struct Connection {
    Relay relay;
    std::shared_ptr<std::size_t> left;  // bytes that may yet come
  };

  void Run(const std::stop_token& stop);
  void Handle(std::uint64_t key, std::uint32_t events);
  static bool KeepsUp(const Relay& relay);

  const std::size_t most_bytes_;
  const Socket epoll_, wake_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<Id, Connection> connections_;
  Id next_id_ = 1;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::progress
