#include "trainer/strategy/parameter_server/shard_link.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"

namespace lockstep::train {

ShardLink::ShardLink(std::string server, const std::string& address)
    : server_(std::move(server)), stub_(proto::ParameterServer::NewStub(ChannelTo(address))) {}

ShardLink::~ShardLink() {
  context_.TryCancel();
}

absl::Status ShardLink::Meet(const Caller& caller, Duration patience) {
  CallTimer timer(context_, patience);
  stream_ = stub_->Exchange(&context_);
  proto::ShardRequest request;
  *request.mutable_introduction() = caller.who;
  proto::ShardReply reply;
  LOCKSTEP_RETURN_IF_ERROR(Introduce(timer, *stream_, caller, server_, reply, request));
  if (!reply.has_welcome()) return End(/*is_open=*/true);
  fence_ = reply.welcome().fence();
  is_shared_ = reply.welcome().shared();
  return absl::OkStatus();
}

absl::Status ShardLink::Write(const proto::ShardRequest& request) {
  return stream_->Write(request) ? absl::OkStatus() : End();
}

absl::StatusOr<proto::ShardReply> ShardLink::Read() {
  proto::ShardReply reply;
  if (!stream_->Read(&reply)) return End();
  if (!reply.has_fenced()) return reply;
  return absl::FailedPreconditionError(fmt::format("{}: {}", server_, reply.fenced().reason()));
}

const SharedContent* ShardLink::Map(const proto::Pulled& pulled) {
  if (pulled.memory() == mapped_name_) return content_.get();
  mapped_name_ = pulled.memory();
  auto attached = SharedContent::Attach(mapped_name_, pulled.memory_floats());
  content_ = attached.ok() ? *std::move(attached) : nullptr;
  return content_.get();
}

absl::Status ShardLink::End(bool is_open) {
  is_broken_ = true;
  return EndOfStream<proto::ShardReply>(*stream_, context_, is_open, server_);
}

}  // namespace lockstep::train
