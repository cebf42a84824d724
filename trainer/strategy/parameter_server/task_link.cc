#include "trainer/strategy/parameter_server/task_link.h"

#include <utility>

#include "trainer/rendezvous/idle_poll.h"

namespace lockstep::train {
namespace {

absl::Status ErrorOf(const proto::Turned& turned) {
  return turned.superseded() ? absl::AbortedError(turned.reason())
                             : absl::InvalidArgumentError(turned.reason());
}

}  // namespace

struct TaskLink::Stream {
  explicit Stream(const std::string& address)
      : channel(ChannelTo(address)), stub(proto::ParameterServer::NewStub(channel)) {}
  ~Stream() { context.TryCancel(); }

  bool IsConnected() const {
    return channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  }

  const std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext context;
  std::unique_ptr<proto::ParameterServer::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<proto::WorkerRequest, proto::TaskReply>> stream;
};

TaskLink::TaskLink(std::string address, Caller caller)
    : address_(std::move(address)), caller_(std::move(caller)), poll_(KeepPolling()) {
  StartGrpc();
}

TaskLink::~TaskLink() = default;

absl::Status TaskLink::End(bool is_open) {
  const std::unique_ptr<Stream> ended = std::move(stream_);
  return EndOfStream<proto::TaskReply>(*ended->stream, ended->context, is_open,
                                       ServerName(0, address_));
}

absl::Status TaskLink::Connect(const std::stop_token& stop) {
  if (stream_ != nullptr && stream_->IsConnected()) return absl::OkStatus();
  stream_ = std::make_unique<Stream>(address_);
  CallTimer timer(stream_->context, caller_.patience);
  proto::WorkerRequest request;
  *request.mutable_introduction() = caller_.who;
  proto::TaskReply reply;
  absl::Status met = [&] {
    // Before the call, which waits for the connection; a context that is cancelled remembers it.
    const std::stop_callback cancel(stop, [this] { stream_->context.TryCancel(); });
    stream_->stream = stream_->stub->Coordinate(&stream_->context);
    return Introduce(timer, *stream_->stream, caller_, ServerName(0, address_), reply, request);
  }();
  if (!met.ok()) {
    stream_.reset();
    return met;
  }
  if (reply.has_turned()) {
    stream_.reset();
    return ErrorOf(reply.turned());
  }
  return reply.has_welcome() ? absl::OkStatus() : End(/*is_open=*/true);
}

absl::StatusOr<proto::TaskReply> TaskLink::Next(const proto::Next& next) {
  proto::WorkerRequest request;
  *request.mutable_next() = next;
  proto::TaskReply reply;
  if (!stream_->stream->Write(request) || !stream_->stream->Read(&reply)) return End();
  if (reply.has_turned()) return ErrorOf(reply.turned());
  return reply;
}

}  // namespace lockstep::train
