// One parameter server's part of the model: values, running statistics, optimizer state, and which
// steps they contain.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/backend.h"
#include "trainer/core/count_histogram.h"
#include "trainer/identity/identity.h"
#include "trainer/strategy/parameter_server/applied_set.h"
#include "trainer/strategy/parameter_server/part_sum.h"
#include "trainer/strategy/parameter_server/plan_shards.h"
#include "trainer/strategy/parameter_server/shared_content.h"
#include "trainer/strategy/parameter_server/update_thread.h"

namespace lockstep::train {

struct ShardLayout {
  ShardRanges ranges;       // of the model's parameters; stored one after the other
  std::int64_t states = 0;  // floats
  std::vector<KeptStates> kept_states = {};  // ascending; what follows the last one is kept whole
  // As OptimizerMemory::segments, over the stored values. Empty: all of them decay.
  std::vector<OptimizerSegment> segments;
  // Sync: the gradients that make one update. 0: Async, each gradient makes one.
  int parts = 0;
  std::int64_t total_steps = 0;    // for the learning rate's schedule
  std::int64_t skipped_steps = 0;  // of the updates up to Load
  std::int64_t parameters = 0;     // floats of the whole model
  std::int64_t values() const { return FloatsOf(ranges); }
};

// What a shard has done since its process started.
struct ShardCounts {
  std::int64_t version = 0;       // of the values: the steps of the run up to them
  std::int64_t updates = 0;       // that changed the values
  std::int64_t dropped = 0;       // gradients that came again or too late
  std::int64_t pushed_bytes = 0;  // of gradients, through shared memory or not
  std::int64_t pulled_bytes = 0;  // likewise, of what was pulled
  // For each gradient that was taken: the updates between the pull of its values and its arrival.
  CountHistogram staleness;
};

// Thread-safe. One thread of the shard makes all updates, whichever thread calls. Push, Pull,
// Locate and Check take a fence (see parameter_server.proto); FailedPrecondition: the shard has
// another fence, or lacks the state that the call needs, and must be loaded again.
class Shard {
 public:
  // InvalidArgument names the optimizer's field. Requires: `backend` is a host back end and
  // outlives the shard.
  static absl::StatusOr<std::unique_ptr<Shard>> Create(const api::TrainingSpec& training,
                                                       Backend& backend);

  // The number of floats that Load takes with this layout. InvalidArgument: the layout's ranges,
  // segments or kept states are not ascending, disjoint and within what they divide, a share of
  // kept states is not in [0, 1], or a count is negative or too large.
  absl::StatusOr<std::int64_t> FloatsToLoad(const ShardLayout& layout) const;
  // Replaces everything; returns OK and does nothing if it was already loaded with this fence.
  // `content` is [values | states | slot 0 | slot 1 | …], after `step` updates, in the memory that
  // becomes the shard's. InvalidArgument: as for FloatsToLoad, or it has another size. Aborted:
  // `leader` is superseded. On failure nothing is replaced.
  absl::Status Load(std::uint64_t fence, ShardLayout layout, std::int64_t step,
                    std::unique_ptr<SharedContent> content, const Incarnation& leader = {});
  // Records that `leader` is present. From now on Load refuses earlier leaders, whose messages may
  // still arrive.
  void LeaderCame(const Incarnation& leader);
  bool IsSuperseded(const Incarnation& leader) const;
  // Forgets what was loaded.
  void Clear();
  // Like Clear, but only if the shard has this fence and has made `version` updates. Returns true
  // if it has cleared.
  bool ClearIfAt(std::uint64_t fence, std::int64_t version);
  std::uint64_t fence() const;  // 0: nothing was loaded
  absl::Status Check(std::uint64_t fence) const;
  ShardLayout layout() const;

  struct Gradient {
    std::uint64_t fence = 0;
    std::int64_t step = 0;
    int part = 0;
    std::int64_t version = 0;  // of the values that it was computed with
    float scale = 1;           // Async: the update uses scale * gradient
    // Counts like any other, but changes nothing: `ranges` and `states` are not read.
    bool skip = false;
    std::vector<const float*> ranges;  // for each range of the layout
    const float* states = nullptr;     // see KeptStates; Sync: the change of the states
  };
  struct Outcome {
    std::int64_t staleness = 0;  // updates since `version`
    bool dropped = false;        // it, or its whole step, had been taken before
  };
  // Async: updates the values. Sync: adds to the step's sum, in the order of parts. Each part of
  // each step is taken once, however often it is pushed.
  absl::StatusOr<Outcome> Push(const Gradient& gradient);

  struct Request {
    std::uint64_t fence = 0;
    // Sync: the values must contain at least this many updates; a worker that asks late, after
    // another has done its task, gets newer values. If the last of these updates has not been made
    // but all of its parts have arrived, it is made now, with `scale`; with `skip` it only counts.
    std::int64_t version = 0;
    float scale = 1;
    bool skip = false;
    bool slots = false;  // `read` gets the optimizer's slots, too
  };
  using Reader = std::function<void(std::span<const float> content)>;  // laid out as for Load
  // Calls `read` while no update is made, and returns the number of updates up to then.
  absl::StatusOr<std::int64_t> Pull(const Request& request, const Reader& read);

  struct Place {               // of the content, for processes of this host: see SharedContent
    std::int64_t version = 0;  // the number of updates up to now
    std::string memory;        // SharedContent::locator, of `floats`; empty: they are not shared
    std::int64_t floats = 0;
    std::uint64_t sequence = 0;
  };
  // As Pull, but the caller reads the memory.
  absl::StatusOr<Place> Locate(const Request& request);

  ShardCounts counts() const;

 private:
  using Ops = std::vector<std::unique_ptr<OptimizerOp>>;  // for each range

  Shard(const api::TrainingSpec& training, Backend& backend, int slots)
      : training_(training), backend_(backend), slots_(slots), sum_(backend) {}
  absl::Status CheckFence(std::uint64_t fence) const;
  absl::StatusOr<Ops> MakeOps(std::size_t ranges) const;
  absl::StatusOr<Outcome> Take(const Gradient& gradient);
  void Replace(ShardLayout layout, std::int64_t step, std::unique_ptr<SharedContent> content);
  float* values() { return memory_->data(); }
  float* states() { return values() + layout_.values(); }
  void Update(const std::vector<const float*>& gradients, float scale);
  void Count(bool skipped);
  void KeepStates();
  absl::StatusOr<Outcome> Sum(const Gradient& gradient);
  std::vector<std::span<const float>> PiecesOf(const Gradient& gradient) const;
  // Locks for readers, which may hold the mutex for long, and for writers. A waiting writer blocks
  // new readers; otherwise overlapping pulls could keep it waiting forever.
  std::shared_lock<std::shared_mutex> Reading() const {
    const std::lock_guard turn(turn_);
    return std::shared_lock(mutex_);
  }
  std::unique_lock<std::shared_mutex> Writing() const {
    const std::lock_guard turn(turn_);
    return std::unique_lock(mutex_);
  }
  bool IsCommitted(const Request& request) const {
    return layout_.parts == 0 || request.version <= version_;
  }
  absl::Status Commit(const Request& request);
  // Only the first pull of a step has to make an update; the others must not wait for readers.
  absl::Status CommitIfDue(const Request& request);
  void ApplySum(float scale);

  const api::TrainingSpec training_;
  Backend& backend_;
  const int slots_;
  UpdateThread updates_;             // makes all updates and sums
  mutable std::mutex turn_;          // to wait for mutex_: see Reading
  mutable std::shared_mutex mutex_;  // guards the rest
  Incarnation leader_;               // the newest
  std::uint64_t fence_ = 0;
  ShardLayout layout_;
  std::unique_ptr<SharedContent> memory_;  // [values | states | slots]
  Ops ops_;
  std::int64_t version_ = 0, skipped_ = 0;      // updates made; those of them that were skipped
  ShardCounts counts_;                          // without version, pulled_bytes
  std::atomic<std::int64_t> pulled_bytes_ = 0;  // atomic: pulls share the mutex
  AppliedSet applied_;                          // Async
  PartSum sum_;                                 // Sync: of step `version_`
};

}  // namespace lockstep::train
