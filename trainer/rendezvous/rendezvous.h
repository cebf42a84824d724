// How a process finds its peers and learns of their loss. A generation is one fixed membership. Any
// loss ends it for all members, which then join the next one with their state intact.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  std::string address;     // the IP address that its connections come from; empty: unknown
  bool operator==(const Member&) const = default;
};

struct Membership {
  std::uint64_t generation = 0;
  int rank = 0;
  std::vector<Member> members;  // by rank: pod rank * processes_per_pod + local rank
  int world() const { return static_cast<int>(members.size()); }
  // Returns the rank whose state the others take: the lowest of those with the most steps. Returns
  // -1 if none has state. A member that claims more than `total_steps` counts as having none.
  int FurthestRank(std::int64_t total_steps) const;
};

// How long a lost process may be awaited as one whose pod is being replaced. The operator gives up
// nodes after 2 minutes and pods 1 minute after their grace period, so a pod that is still there
// after this has a process that hangs or cannot reach the leader, which only the group can tell.
inline constexpr Duration kGivenUpWithin = std::chrono::minutes(5);

// The same, as the leader sees a lost member. It is longer: the member, which may only be cut off,
// must give up first, so that its pod is replaced and the others keep what they have in memory.
inline constexpr Duration kMemberGivenUpWithin = kGivenUpWithin + std::chrono::minutes(2);

// How long members wait for one that still saves or shares its state: to finish, or after the end
// of its generation. It heartbeats meanwhile even if its volume hangs, so there has to be an end.
// One that does not heartbeat for 5 s is lost, whatever it did last.
inline constexpr Duration kBusyWithin = std::chrono::minutes(30);

// Thread-safe.
class Rendezvous {
 public:
  using EndCallback = std::function<void(std::uint64_t generation, const std::string& reason)>;

  virtual ~Rendezvous() = default;
  // Blocks until all members have joined, then returns the new generation's membership. If this
  // process is a member of an active generation, ends that one for all. `step`: see Member.
  // `fingerprint`: must be equal on all members; see fingerprint.h.
  //   DeadlineExceeded: names the missing members and the leader's address. Time counts only while
  //     the pods of all missing members exist and no missing member still saves or shares its
  //     state: until then, the others wait with their state in memory.
  //   FailedPrecondition: this process is not a member (its job, cluster hash, slot or
  //     fingerprint differs); the leader's log names both sides.
  //   Aborted: a later process has its place.
  //   Cancelled: this pod was asked to stop, or NewWorkers is set and not put off, and the group
  //   has that number or waits for this process, rank 0, to save; save the state and exit.
  //   AlreadyExists: every member has finished and the result is saved; exit with 0.
  // After an error, this process is in no further generation unless it calls Join again.
  virtual absl::StatusOr<Membership> Join(std::int64_t step, const std::string& fingerprint) = 0;
  // From the next Join on, this process never gives its address to the other members again.
  virtual void WithholdAddress() = 0;
  // Sets the callback for a generation's end, which must abort the communicator. It is called on
  // another thread, at most once per generation. Call before Join.
  virtual void OnGenerationEnd(EndCallback callback) = 0;
  // Returns true if a member's process, or the leading pod, was lost or started again between the
  // last two generations that this process was in. Known once Join has returned.
  virtual bool LostMember() const = 0;
  // The store of the current generation. Its calls return Cancelled once the generation has ended.
  virtual KeyValueStore& store() = 0;
  // Sets the progress that heartbeats carry from now on.
  virtual void Report(const api::Progress& progress) = 0;
  // Sets the activity that every heartbeat carries, and that the part of the step is unknown. Cheap
  // enough to call at every step.
  virtual void SetActivity(api::Activity activity) = 0;
  // Sets the part of the step that every heartbeat carries until the activity changes, so that the
  // leader knows who keeps the others waiting. As cheap.
  virtual void SetStepPart(api::StepPart part) = 0;
  // True once this pod has been asked to stop (SIGTERM to its supervisor, which forwards it). Ranks
  // sum this flag in each step's all-reduce, so all see it at the same step: rank 0 saves, ranks
  // with the flag exit with kExitPreempted, and the others Join again.
  virtual bool StopRequested() const = 0;
  // Set once the group gets, or has, another number of workers than this process knows of: it must
  // leave once rank 0 has saved, and start again as one of so many (kEnvWorkers), or as it was if
  // its place is gone, to wait for one. Ranks sum this flag like the one above.
  virtual std::optional<int> NewWorkers() const { return std::nullopt; }
  // Puts NewWorkers off, or no longer: until then, Join waits for a group of the old number.
  virtual void SetKeepsWorkers(bool /*keeps*/) {}
  // Rank 0 leaves for NewWorkers, and what the group has in memory is saved. Until it says so, the
  // group keeps its number, and members that are lost are waited for.
  virtual void StateIsSaved() {}
  // Blocks until every member has called it; then all may exit.
  //   Aborted: the generation ended first, because a member was lost for example; Join again.
  //   DeadlineExceeded: a member is alive but has not finished within kBusyWithin; Join again.
  //   Cancelled: this pod was asked to stop.
  virtual absl::Status Finish() = 0;
};

// Returns the gRPC client of the leading pod's supervisor. StopRequested() is StopSignalled().
std::unique_ptr<Rendezvous> MakeRendezvousClient(const Identity& identity, const Clock& clock);

}  // namespace lockstep::train
