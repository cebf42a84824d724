// How ranks combine their gradients and keep equal state. Several strategies of jobs share a class:
// see MakeStrategy. A Strategy lives as long as its process; each generation calls Connect once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/v1/job_token.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/gradient_reducer.h"
#include "trainer/comm/make_stream_communicator.h"
#include "trainer/comm/root_memory.h"
#include "trainer/comm/stream_communicator.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/patience.h"

namespace lockstep::train {

// Which rank updates the parameters that a rank computes with.
enum class UpdateSite {
  kEveryRank,  // this one, as all others do with theirs, from the same sums
  kThisRank,   // this one for all: rank 0, the controller of CentralStorage
  kRankZero,   // the controller; this rank has no optimizer state
  kShares,     // this one its share, and each other one another: `sharding`
};

class StageGroups;

// Not thread-safe, except Abort. Every error ends the generation: a peer is lost or too slow (see
// CollectiveOptions), or another rank has ended it. FailedPrecondition: the ranks do not call the
// same operations, and would not in the next generation either.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Forms this generation's group. Every member calls it. Cancelled: this pod was asked to stop, or
  // the generation has ended.
  virtual absl::Status Connect(const Membership& membership, KeyValueStore& store) = 0;
  // Ends this rank's part in the group, if there is one, and gives back the memory of its peers
  // that is mapped here. A peer that has died is started again in its pod and asks for as much as
  // the dead process had, so call it before waiting for that. Not after a generation that has ended
  // well, where a peer may still read the last sums. A rank whose parameters were those of rank 0,
  // in place, has zeros afterwards. A group whose GPUs sum among themselves is left only by
  // the next Connect, which ends every earlier group.
  virtual void Disconnect() = 0;
  // False once a Connect has failed in a way that suggests that members do not connect from their
  // own addresses.
  // The caller then withholds this process's address from the next generations, whose members
  // accept any address as long as one of theirs is unknown.
  virtual bool TrustsAddresses() const = 0;
  // Overwrites `data` on every rank with the data of rank `root`.
  virtual absl::Status Broadcast(std::span<std::byte> data, int root) = 0;
  // Replaces `data` by its sum over ranks. For a few numbers outside a step.
  virtual absl::Status Sum(std::span<float> data) = 0;
  // Declares [begin, end of the gradient buffer) final on this rank, or queued. `begin` descends
  // within a step.
  virtual void GradientsReady(std::int64_t begin) = 0;
  // Blocks until the whole buffer holds the sum over ranks. For gradients on a device with a queue
  // (see MakeCollectiveStrategy), queues a wait for the sums and returns at once.
  virtual absl::Status FinishGradients() = 0;
  // Overwrites ranges of the gradient buffer on every rank with those of the rank that has them:
  // `shares`, by rank; later ranks have none. For gradients on a device with a queue, queues that
  // and returns at once. Requires: called between FinishGradients and the next step's first
  // GradientsReady, on all ranks or none. After a failure the next step's sums fail, too.
  virtual absl::Status BroadcastShares(std::span<const FlatRange> shares) = 0;
  // Blocks until all ranks have called it. After a failure the next step's sums fail, too.
  virtual absl::Status Barrier() = 0;
  // The first failure among this generation's finished sums and broadcasts of the buffer. If a
  // device does them, a failure is known only once the device has done what was queued after them.
  virtual absl::Status SumStatus() const = 0;
  // Call at the end of each step, the oldest first, with OK or the reason why its sums failed: when
  // FinishGradients returns, the sums of a device are not known yet. And when a wait at a StageLink
  // has failed in an evaluation.
  virtual void StepEnded(const absl::Status& summed) = 0;
  virtual std::string CommunicatorName() const = 0;
  // Returns this rank's groups if the model is cut into stages, else null. GradientsReady,
  // FinishGradients and SumStatus then concern the ranks with the same stage, the other calls all
  // ranks.
  virtual StageGroups* stages() { return nullptr; }
  // Ends that generation's communication: calls that wait for its members, now or later, fail.
  // Thread-safe.
  virtual void Abort(std::uint64_t generation) = 0;
};

struct CollectiveOptions {
  std::string bind_address;           // this pod's own IP; empty: all
  bool allow_shm = true;              // ranks of one host may share memory
  RootMemory* root_memory = nullptr;  // see CommunicatorOptions
  // How sums of gradients in device memory travel, if this rank or another has them there.
  DeviceRoad device_road = DeviceRoad::kNcclIfPossible;
  std::vector<std::int64_t> layer_starts;  // in the gradient buffer, ascending
  std::int64_t bucket_floats = 1 << 19;    // 2 MB, see BucketsOf
  // The rendezvous's heartbeats detect dead members within seconds. These timeouts only end a
  // generation in which a live rank does not arrive, because its batch is slow or it waits for a
  // disk. A collective's timeout is kStepsPerTimeout times the longest recent step, but at least
  // this; the minimum doubles each time a timeout expires, so that a lasting difference in speed
  // cannot end every generation.
  Duration least_timeout = std::chrono::minutes(5);
  Duration connect_timeout = std::chrono::seconds(30);  // no rank computes during Connect
  // How long a group must have failed to connect before its members' addresses are not trusted.
  // Much longer than the heartbeats take to detect a dead member.
  Duration address_patience = std::chrono::seconds(20);
  api::JobToken token;  // absent: peers are not authenticated
  std::function<bool()> stop_requested = [] {
    return false;
  };  // ends Connect; called on any thread
};

// The ranges of `buffer` that are summed one after the other in a step, the last one first. In a
// ring over sockets of `ring` ranks (1: they are summed in another way), the messages of a sum that
// follow each other are 2 (ring - 1). So that their bytes and not their number take the time, the
// buckets of more than 16 ranks are larger than bucket_floats, in proportion.
std::vector<GradientReducer::Bucket> BucketsOf(const GradientBuffer& buffer,
                                               const CollectiveOptions& options, int ring);

// Returns a strategy that sums gradients by collectives. `sums`: the gradients lie in device memory
// and pass through `buffer`; absent: `buffer` holds them. Requires: `buffer` and `sums` outlive the
// strategy.
std::unique_ptr<Strategy> MakeCollectiveStrategy(GradientBuffer& buffer, CollectiveOptions options,
                                                 std::optional<DeviceSums> sums = std::nullopt);

}  // namespace lockstep::train
