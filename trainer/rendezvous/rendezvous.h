// How a replica finds its peers and hears of their loss. One generation is one fixed membership;
// any loss ends it for everybody, and all join the next with their memory intact.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/activity.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "trainer/comm/key_value_store.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

struct Member {
  std::string role;
  int index = 0, local_rank = 0;
  std::int64_t step = -1;  // steps done in memory; -1: no state yet
  std::string address;     // the IP address that its connections come from; empty: not known
  bool operator==(const Member&) const = default;
};

struct Membership {
  std::uint64_t generation = 0;
  int rank = 0;
  std::vector<Member> members;  // by rank: pod rank * processes_per_pod + local rank
  int world() const { return static_cast<int>(members.size()); }
  // The rank whose state all others take: the furthest, and of those the lowest. -1: none has any.
  // Who claims more steps than the run has counts as having none.
  int FurthestRank(std::int64_t total_steps) const;
};

// By then the pod of a process that is lost is gone, if somebody puts another in its place: nodes
// are given up after some two minutes, and pods after their grace and one more. In a pod that is
// still there a process hangs, or cannot reach the leader: only the group can tell.
inline constexpr Duration kGivenUpWithin = std::chrono::minutes(5);

// Thread-safe.
class Rendezvous {
 public:
  using EndCallback = std::function<void(std::uint64_t generation, const std::string& reason)>;

  virtual ~Rendezvous() = default;
  // Blocks until everybody is there; in the middle of a generation it ends that one for all.
  // `step`: see Member. `layout`: Model::LayoutFingerprint, must be equal on all.
  //   DeadlineExceeded: names the missing and the leader's address. Time counts only while the pods
  //     of all who are missing are there: as long as an operator has yet to make one, or to replace
  //     one that was lost, those who are here keep their memory and wait.
  //   FailedPrecondition: this process does not belong (another cluster hash, slot or layout); the
  //     leader's log names both sides.
  //   Aborted: a later process has its place.
  //   Cancelled: this pod was asked to stop while it waited; save what is in memory and leave.
  //   AlreadyExists: every member has finished: the result is saved, leave with 0.
  virtual absl::StatusOr<Membership> Join(std::int64_t step, const std::string& layout) = 0;
  // Called from another thread, at most once a generation, when it has ended: abort the
  // communicator. Set before Join.
  virtual void OnGenerationEnd(EndCallback callback) = 0;
  // The store of the current generation; its calls are Cancelled once that has ended.
  virtual KeyValueStore& store() = 0;
  // Latest progress, sent with the next heartbeat.
  virtual void Report(const api::Progress& progress) = 0;
  // What this replica does from now on, sent with every heartbeat. Cheap enough for every step.
  virtual void SetActivity(api::Activity activity) = 0;
  // True once this pod has been asked to stop (SIGTERM to its supervisor, which passes it on).
  // Ranks agree by summing this flag in the all-reduce of a step, so that all see it at the same
  // one: rank 0 saves, ranks with the flag leave with kExitPreempted, the others Join again.
  virtual bool StopRequested() const = 0;
  // Blocks until every member has called it, then all may exit. Aborted: the generation ended
  // first, Join again. DeadlineExceeded: a member lives and yet does not finish; Join again.
  // Cancelled: this pod was asked to stop.
  virtual absl::Status Finish() = 0;
};

// The gRPC client of the leading pod's supervisor. StopRequested() is StopSignalled().
std::unique_ptr<Rendezvous> MakeRendezvousClient(const Identity& identity, const Clock& clock);

}  // namespace lockstep::train
