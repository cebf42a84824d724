// A worker's stream to one parameter server's shard.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/proto/parameter_server.grpc.pb.h"
#include "base/clock.h"
#include "trainer/strategy/parameter_server/caller.h"
#include "trainer/strategy/parameter_server/shared_content.h"

namespace lockstep::train {

// Not thread-safe. Errors are those of ShardGroup; after Unavailable, the link stays broken.
class ShardLink {
 public:
  // `server`: for messages.
  ShardLink(std::string server, const std::string& address);
  ~ShardLink();

  // Connects and introduces the caller, which takes at most `patience`. Call it once, first.
  absl::Status Meet(const Caller& caller, Duration patience);
  absl::Status Write(const proto::ShardRequest& request);
  // FailedPrecondition: the server has answered that it has another fence.
  absl::StatusOr<proto::ShardReply> Read();
  // The server's memory, mapped when it is another than before; null if that is impossible.
  const SharedContent* Map(const proto::Pulled& pulled);
  // The fence that the server said it has, or was loaded with since; 0: none. The server may have
  // lost it meanwhile.
  std::uint64_t fence() const { return fence_; }
  void set_fence(std::uint64_t fence) { fence_ = fence; }
  bool is_shared() const { return is_shared_; }  // the server has mapped the caller's memory
  bool is_broken() const { return is_broken_; }

 private:
  absl::Status End(bool is_open = false);

  const std::string server_;
  grpc::ClientContext context_;
  std::unique_ptr<proto::ParameterServer::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::ShardRequest, proto::ShardReply>> stream_;
  std::string mapped_name_;  // of `content_`, or of what cannot be mapped
  std::unique_ptr<SharedContent> content_;
  std::uint64_t fence_ = 0;
  bool is_shared_ = false, is_broken_ = false;
};

}  // namespace lockstep::train
