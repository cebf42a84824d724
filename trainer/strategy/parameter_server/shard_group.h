// A worker's connections to the shards of all parameter servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/shm/shared_segment.h"
#include "trainer/strategy/parameter_server/caller.h"
#include "trainer/strategy/parameter_server/plan_shards.h"
#include "trainer/strategy/parameter_server/shard_link.h"

namespace lockstep::train {

// What the servers hold, in the order of the model: parameters, running statistics, and for each
// of the optimizer's slots as many floats as there are parameters.
struct FlatValues {
  std::span<float> parameters, states;
  std::vector<std::span<float>> slots;
};

struct ShardGroupOptions {
  std::vector<std::string> servers;  // HOST:PORT by index
  Caller caller;
  std::vector<ShardRanges> plan;            // by server
  std::int64_t parameters = 0, states = 0;  // floats
  // The memory that a server of this host may map: see GradientBuffer::name. The states' change
  // follows the gradients. Empty: every float is sent.
  std::string gradients;
  std::int64_t gradient_floats = 0;
};

// Which of several servers' errors says most: a lack of memory takes precedence over a broken
// connection, and a permanent refusal over both. 0: OK.
int WeightOf(const absl::Status& status);

// Not thread-safe. Errors of all calls:
//   Unavailable: a connection is broken; names the server. Connect() again and repeat the call.
//   ResourceExhausted: a server has no memory now for what this process loads; names the server.
//     What else runs on its node may end: Connect() again and repeat the call later.
//   FailedPrecondition: a server has another fence, or not the state that the call needs.
//   PermissionDenied: the server at an address refuses this process.
//   InvalidArgument: a server refuses what this process loads.
//   Aborted: a later process leads the run.
class ShardGroup {
 public:
  explicit ShardGroup(ShardGroupOptions options);
  // The bytes of the memory that servers of this host write pulled values to.
  static std::size_t SharedBytes(const ShardGroupOptions& options);
  ~ShardGroup();

  // Connects to the servers that this group is not connected to, as far as they can be reached
  // within `patience`, or the caller's if that is shorter. An error names each of the others.
  absl::Status Connect(Duration patience = Duration::max());
  void Disconnect();
  // Whether all servers have mapped this process's memory, so that no float is sent.
  bool IsShared() const;

  struct Gradient {
    std::uint64_t fence = 0;
    std::int64_t step = 0;
    int part = 0;
    std::vector<std::int64_t> versions;  // of the values, by server
    float scale = 1;
    bool skip = false;
    std::span<const float> gradients, states;  // states: their change
    bool in_buffer = false;  // they lie in the buffer that ShardGroupOptions names
  };
  struct PushResult {
    std::int64_t staleness = 0;  // the largest of all servers'
    bool dropped = false;        // by all servers
    bool stopping = false;       // a server was asked to stop
  };
  absl::StatusOr<PushResult> Push(const Gradient& gradient);

  struct Request {
    std::uint64_t fence = 0;
    std::int64_t version = 0;  // these three: see Pull in parameter_server.proto
    float scale = 1;
    bool skip = false;
  };
  // Overwrites `values`, with `slots` including those of the optimizer. Returns the versions, by
  // server.
  absl::StatusOr<std::vector<std::int64_t>> Pull(const Request& request, const FlatValues& values,
                                                 bool slots);

  struct Content {
    std::uint64_t fence = 0;  // another than 0
    int parts = 0;
    std::int64_t step = 0, skipped_steps = 0, total_steps = 0;
    std::vector<OptimizerSegment> segments;  // of the parameters
    std::vector<KeptStates> kept_states = {};
    FlatValues values;
  };
  // Loads the servers that do not have this fence. A repeated call reconnects to those that had it,
  // and loads only those that could not be loaded or have lost the values since.
  absl::Status Load(const Content& content);
  // Asks all servers that this group is connected to whether they have this fence, and whether they
  // were asked to stop. On failure, the others have been asked all the same.
  absl::Status Check(std::uint64_t fence);
  // Whether a server said that it was asked to stop, at the last Check or Pull. A pull without the
  // slots need not tell: see Pulled.stopping.
  bool IsStopping() const { return is_stopping_; }
  // Tells all connected servers that what was last pulled with the slots has been saved. Servers
  // that were asked to stop and have made no update since then end. Returns true if there is such a
  // server; on failure, there may be one, too.
  absl::StatusOr<bool> Saved();
  // Says that the run is over, to all servers that this group is connected to.
  absl::Status Finish();

 private:
  std::vector<std::size_t> ServersToMeet() const;
  absl::Status ConnectTo(std::size_t server, Duration patience);
  proto::ShardRequest RequestToLoad(std::size_t server, const Content& content) const;
  absl::Status Ask(const std::function<proto::ShardRequest(std::size_t)>& request,
                   const std::function<absl::Status(std::size_t, const proto::ShardReply&)>& hear);
  absl::Status SendAll(std::vector<DataSource>& sources);
  std::vector<std::span<float>> RangesOf(std::size_t server, const FlatValues& values) const;
  bool TakeDirect(std::size_t server, const proto::Pulled& pulled, const FlatValues& values);
  void TakeShared(std::size_t server, const FlatValues& values) const;
  bool IsFirst(std::size_t server) const { return server == 0; }

  ShardGroupOptions options_;
  const std::shared_ptr<const void> poll_;  // while this process computes
  std::unique_ptr<SharedSegment> values_;   // that servers of this host write pulled values to
  std::vector<std::unique_ptr<ShardLink>> links_;
  std::size_t next_to_meet_ = 0;
  bool is_stopping_ = false;
  std::uint64_t kept_fence_ = 0;             // of what was pulled last with the slots; 0: nothing
  std::vector<std::int64_t> kept_versions_;  // of the same, by server
};

}  // namespace lockstep::train
