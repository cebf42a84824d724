// One connection of a replica to the rendezvous: a channel of its own, the session's stream and the
// thread that reads it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/proto/rendezvous.grpc.pb.h"

namespace lockstep::train {

// Thread-safe, but destroy it on another thread than its own.
class RendezvousStream {
 public:
  struct Events {  // both are called on the stream's own thread
    std::function<void(const proto::CoordinatorMessage&)> received;
    std::function<void(const std::string& reason)> broken;  // once, last
  };

  // Connects; returns at once if that is refused, after two seconds if nobody answers.
  RendezvousStream(const std::string& address, Events events);
  ~RendezvousStream();
  RendezvousStream(const RendezvousStream&) = delete;
  RendezvousStream& operator=(const RendezvousStream&) = delete;

  // False if the stream is broken.
  bool Send(const proto::ReplicaMessage& message);
  // Says goodbye: the server ends the stream, then `broken` is called.
  void HangUp();
  // For Put and Get; on the same connection, so they fail with it.
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
