#include "trainer/rendezvous/rendezvous_stream.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "trainer/rendezvous/grpc_options.h"
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
      stream_(stub_->Session(&context_)),
      reader_([this] { Read(); }) {}

RendezvousStream::~RendezvousStream() {
  context_.TryCancel();
  reader_.join();
}

bool RendezvousStream::Send(const proto::ReplicaMessage& message) {
  const std::lock_guard lock(write_mutex_);
  return writable_ && stream_->Write(message);
}

void RendezvousStream::HangUp() {
  const std::lock_guard lock(write_mutex_);
  if (writable_) stream_->WritesDone();
  writable_ = false;
}

void RendezvousStream::Read() {
  proto::CoordinatorMessage message;
  while (stream_->Read(&message)) events_.received(message);
  {
    const std::lock_guard lock(write_mutex_);
    writable_ = false;
  }
  const grpc::Status status = stream_->Finish();
  events_.broken(status.ok() ? "it closed the connection" : status.error_message());
}

}  // namespace lockstep::train
