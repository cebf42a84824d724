// One connection of a process to the rendezvous: its own channel, the session's stream and the
// threads that read and write it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/proto/rendezvous.grpc.pb.h"

namespace lockstep::train {

// Thread-safe, but must not be destroyed on its own threads. Only the destructor waits for the
// network, because the other end may never open the stream or read from it.
class RendezvousStream {
 public:
  struct Events {  // called on the stream's own thread
    std::function<void(const proto::CoordinatorMessage&)> received;
    std::function<void(const std::string& reason)> broken;  // called once, as the last event
  };

  // Connects without waiting for the result: `broken` follows at once if the connection is refused,
  // after 2 s if there is no answer.
  RendezvousStream(const std::string& address, Events events);
  // Cancels the stream, which lets go of what its threads wait for.
  ~RendezvousStream();
  RendezvousStream(const RendezvousStream&) = delete;
  RendezvousStream& operator=(const RendezvousStream&) = delete;

  // Sends the message after the earlier ones, of which a heartbeat takes the place of one just
  // before it that is not being sent yet: it says as much. Drops it if the stream is broken.
  void Send(const proto::ReplicaMessage& message);
  // Half-closes the stream after the earlier messages. The server then ends it, once it has taken
  // all of them, which calls `broken`.
  void HangUp();
  // The other end, as gRPC names it. Requires: it has sent a message.
  std::string peer() const { return context_.peer(); }
  // For Put and Get. They use the same connection, so they fail with it.
  proto::Rendezvous::Stub& stub() { return *stub_; }

 private:
  void Read();
  void Write();

  const Events events_;
  std::unique_ptr<proto::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::ReplicaMessage, proto::CoordinatorMessage>>
      stream_;  // set by the reading thread before open_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<proto::ReplicaMessage> outgoing_;  // without the one that is being written
  bool open_ = false;                           // the stream can be written to
  bool hang_up_ = false;                        // nothing more is to be written than outgoing_
  bool ended_ = false;                          // the stream has ended; nothing more can be written
  bool written_ = false;                        // the writing thread has ended
  std::thread reader_, writer_;                 // last: use all of the above
};

}  // namespace lockstep::train
