#include "trainer/rendezvous/rendezvous_stream.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "trainer/rendezvous/gate/grpc_options.h"
#include "trainer/rendezvous/service_name.h"

namespace lockstep::train {
namespace {

std::string Target(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  return AbsoluteServiceName(address.substr(0, colon)) + address.substr(colon);
}

}  // namespace

RendezvousStream::RendezvousStream(const std::string& address, Events events)
    : events_(std::move(events)),
      stub_(proto::Rendezvous::NewStub(grpc::CreateCustomChannel(
          Target(address), grpc::InsecureChannelCredentials(), ChannelOptions()))),
      reader_([this] { Read(); }),
      writer_([this] { Write(); }) {}

RendezvousStream::~RendezvousStream() {
  context_.TryCancel();
  reader_.join();
  writer_.join();
}

void RendezvousStream::Send(const proto::ReplicaMessage& message) {
  const std::lock_guard lock(mutex_);
  if (hang_up_) return;
  if (message.has_heartbeat() && !outgoing_.empty() && outgoing_.back().has_heartbeat()) {
    outgoing_.back() = message;
  } else {
    outgoing_.push_back(message);
  }
  changed_.notify_all();
}

void RendezvousStream::HangUp() {
  const std::lock_guard lock(mutex_);
  hang_up_ = true;
  changed_.notify_all();
}

void RendezvousStream::Read() {
  stream_ = stub_->Session(&context_);  // waits for the connection
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  proto::CoordinatorMessage message;
  while (stream_->Read(&message)) events_.received(message);
  {
    std::unique_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return written_; });  // Finish must be the last call
  }
  const grpc::Status status = stream_->Finish();
  events_.broken(status.ok() ? "it closed the connection" : status.error_message());
}

void RendezvousStream::Write() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_; });
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || hang_up_ || !outgoing_.empty(); });
    if (ended_ || outgoing_.empty()) break;
    const proto::ReplicaMessage message = std::move(outgoing_.front());
    outgoing_.pop_front();
    lock.unlock();
    stream_->Write(message);  // a failure also ends the reading
    lock.lock();
  }
  if (!ended_) {
    lock.unlock();
    stream_->WritesDone();
    lock.lock();
  }
  hang_up_ = written_ = true;
  changed_.notify_all();
}

}  // namespace lockstep::train
