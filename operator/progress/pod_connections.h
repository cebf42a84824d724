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

// Limits what a pod can send. gRPC 1.51 does not: it buffers endless headers at a gigabyte per
// second, even after the end of the call. So gRPC gets one end of a socket pair, and the pod's
// connection is relayed to the other end until the pod has sent more than a response may have.
// Thread-safe.
class PodConnections {
 public:
  using Id = std::uint64_t;
  // A pod may send `most_bytes` bytes per request.
  explicit PodConnections(std::size_t most_bytes);
  ~PodConnections();  // closes all connections
  PodConnections(const PodConnections&) = delete;
  PodConnections& operator=(const PodConnections&) = delete;

  struct Opened {
    Id id = 0;
    Descriptor socket;  // non-blocking; the caller closes it
  };
  // Starts to connect, without waiting for the pod; if that fails later, the socket is closed as if
  // the connection had broken. InvalidArgument: `host` is not an IP address or the port is invalid.
  // Unavailable: the attempt could not be started, as the message says.
  absl::StatusOr<Opened> Open(const std::string& host, int port);
  // Lets the pod send `most_bytes` from now on, as after Open; the first byte beyond them closes
  // the connection. Returns false and changes nothing if KeepsUp(id) is false.
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
