// The server's side of one Exchange stream.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/proto/parameter_server.grpc.pb.h"
#include "trainer/comm/shm/shared_segment.h"
#include "trainer/strategy/parameter_server/shard.h"

namespace lockstep::train {

using ShardStream = grpc::ServerReaderWriter<proto::ShardReply, proto::ShardRequest>;

// Not thread-safe: used by the stream's thread.
class ShardSession {
 public:
  struct Events {
    bool finished = false;  // the caller has said that the run is over
    // This server was asked to stop, and the caller has everything and needs it no more.
    bool released = false;
  };

  // Maps the caller's memory if it offers any on this host. `leads`: the caller is the leading
  // process, and may load the shard and end the run until a later one has come.
  ShardSession(Shard& shard, ShardStream& stream, const proto::Introduction& who, bool leads,
               std::function<bool()> is_stopping, MakeContent make_content);
  // Says what the shard has, with the proof that this server knows the token. Returns false when
  // the stream has ended.
  bool Welcome(const std::string& proof);
  // Serves one request. Returns false when the stream has ended or the caller breaks the protocol.
  // Calls `releasing` before it tells the caller that this server is released.
  bool Serve(const std::function<void()>& releasing);
  const Events& events() const { return events_; }

 private:
  bool Push(const proto::Push& push);
  bool Pull(const proto::Pull& pull);
  bool Load(const proto::Load& load);
  bool Saved(const proto::Saved& saved, const std::function<void()>& releasing);
  bool Check(const proto::Check& check);
  bool Finish();
  absl::StatusOr<std::unique_ptr<SharedContent>> RoomFor(const ShardLayout& layout) const;
  bool IsSuperseded() const { return !leads_ || shard_.IsSuperseded(leader_); }
  bool Receive(std::int64_t floats);
  bool Reply(const proto::ShardReply& reply) { return stream_.Write(reply); }
  bool ReplyPlace(const Shard::Place& place);
  bool ReplyLoaded(const absl::Status& status);
  bool ReplyFenced(const absl::Status& status);
  Shard::Gradient GradientOf(const proto::Push& push, const ShardLayout& layout) const;
  bool IsMapped(const ShardLayout& layout) const;
  void WriteShared(std::span<const float> content, const ShardLayout& layout);

  Shard& shard_;
  ShardStream& stream_;
  const bool leads_;
  const Incarnation leader_;  // the caller's, if it leads
  const std::function<bool()> is_stopping_;
  const MakeContent make_content_;
  std::unique_ptr<SharedSegment> gradients_, values_;  // the caller's; both or neither
  std::vector<float> received_;
  Events events_;
};

}  // namespace lockstep::train
