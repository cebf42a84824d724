// One connection of a process to the rendezvous: its own channel, the session's stream and the
// thread that reads it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/proto/rendezvous.grpc.pb.h"

namespace lockstep::train {

// Thread-safe, but must not be destroyed on its own thread.
class RendezvousStream {
 public:
  struct Events {  // called on the stream's own thread
    std::function<void(const proto::CoordinatorMessage&)> received;
    std::function<void(const std::string& reason)> broken;  // called once, as the last event
  };

  // Connects without waiting for the result: `broken` follows at once if the connection is refused,
  // after 2 s if there is no answer.
  RendezvousStream(const std::string& address, Events events);
  ~RendezvousStream();
  RendezvousStream(const RendezvousStream&) = delete;
  RendezvousStream& operator=(const RendezvousStream&) = delete;

  // Returns false if the stream is broken.
  bool Send(const proto::ReplicaMessage& message);
  // Half-closes the stream. The server then ends it, which calls `broken`.
  void HangUp();
  // For Put and Get. They use the same connection, so they fail with it.
  proto::Rendezvous::Stub& stub() { return *stub_; }

 private:
  void Read();

  const Events events_;
  std::unique_ptr<proto::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::ReplicaMessage, proto::CoordinatorMessage>>
      stream_;
  std::mutex write_mutex_;
  bool writable_ = true;
  std::thread reader_;
};

}  // namespace lockstep::train
