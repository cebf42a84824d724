// The operator's connections to programs in tenants' pods.
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
#include "base/descriptor.h"
#include "base/relay.h"

namespace lockstep::progress {

// gRPC, 1.51, reads without bound: it buffers endless headers at a gigabyte per second, even after
// the end of the call. So it gets one end of a socket pair, and the pod's connection is relayed to
// the other as long as the pod sends no more than an answer may have. Thread-safe.
class PodConnections {
 public:
  using Id = std::uint64_t;
  explicit PodConnections(std::size_t most_bytes);  // that a pod may send per question
  ~PodConnections();                                // closes all connections
  PodConnections(const PodConnections&) = delete;
  PodConnections& operator=(const PodConnections&) = delete;

  struct Opened {
    Id id = 0;
    Descriptor socket;  // non-blocking; the caller closes it
  };
  // Connects without waiting for the pod: a connection that fails is closed like one that breaks.
  // InvalidArgument if `host` is not an IP address or the port is invalid. Unavailable says why
  // there is no connection.
  absl::StatusOr<Opened> Open(const std::string& host, int port);
  // Allows `most_bytes` more from now on, as after Open; the connection is closed at the first byte
  // beyond them. Returns false, and allows nothing, if KeepsUp(id) is false.
  bool Allow(Id id);
  // True if the connection is open and the pod has read everything that was sent to it. gRPC
  // buffers without bound what a pod does not read.
  bool KeepsUp(Id id) const;
  std::size_t size() const;  // number of connections

 private:
  struct Connection {
    Relay relay;
    std::shared_ptr<std::size_t> left;  // bytes that may still arrive
  };

  void Run(const std::stop_token& stop);
  void Handle(std::uint64_t key, std::uint32_t events);
  static bool KeepsUp(const Relay& relay);

  const std::size_t most_bytes_;
  const Descriptor epoll_, wake_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<Id, Connection> connections_;
  Id next_id_ = 1;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::progress
