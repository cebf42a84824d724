// The rules of membership as a pure state machine: no threads, sockets or clock. Each call returns
// the messages to send; the coordinator owns the streams.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/proto/rendezvous.pb.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"
#include "trainer/rendezvous/address_watch.h"
#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

// Identifies one stream. Never reused.
using SessionId = std::uint64_t;

// A place in the group, held by one process at a time.
struct Slot {
  std::string role;
  int index = 0, local_rank = 0;
  auto operator<=>(const Slot&) const = default;
};
std::string ToString(const Slot& slot);  // "worker 1", "worker 1 process 2"
std::string PodOf(const Slot& slot);     // "worker-1"

// What a group's number of workers decides.
struct RosterSize {
  int workers = 0;
  std::string cluster_hash;
  std::vector<Slot> slots;         // by rank
  std::vector<std::string> hosts;  // of the slots' pods, by rank; empty: unknown
};

struct RosterConfig : RosterSize {
  std::string job, job_uid;
  // Returns the same group with another number of workers, at least 1. Unset: it has a fixed size.
  std::function<RosterSize(int workers)> of_size;
  api::JobToken token;
  std::string listens_at;  // the leader's own address; set by RendezvousService::Start
  std::function<bool(const std::string& host)> has_address = &HasAddress;
  Duration dead_after = std::chrono::seconds(5);
  Duration waiting_every = std::chrono::seconds(1);
  // How long a lost member counts as being replaced.
  Duration given_up_within = kMemberGivenUpWithin;
  Duration busy_within = kBusyWithin;  // how long a member counts as busy after its generation
};

struct Outgoing {
  SessionId to = 0;
  // Shared by all recipients of the same message: a list of all members for each member would take
  // gigabytes.
  std::shared_ptr<const proto::CoordinatorMessage> message;
  bool close = false;    // ends the stream after the message
  std::string log = {};  // for the leader's log only: must not reveal other members to the caller
};
using Outbox = std::vector<Outgoing>;

// A generation starts when every slot's process has joined, and ends when one of them is lost,
// joins again, leaves or is replaced. Each number is greater than any that a member has seen, so a
// message of an ended generation cannot be mistaken for one of the current. Not thread-safe.
class Roster {
 public:
  explicit Roster(RosterConfig config);

  void Connect(SessionId id, SteadyTime now);
  Outbox Receive(SessionId id, const proto::ReplicaMessage& message, SteadyTime now);
  // Replaces the set of hosts without an address, whose pods do not exist.
  void SetHostsWithoutAddress(std::set<std::string> hosts) {
    without_address_ = std::move(hosts);
    UpdateAbsent();
  }
  // Removes a session whose stream is gone. Ends the generation if the process was in it.
  Outbox Disconnect(SessionId id, const std::string& reason);
  // Drops sessions that have been silent for dead_after, and callers that have not joined within
  // twice that time. Sends Waiting to waiting processes every waiting_every. Call it at least every
  // dead_after / 2: after a longer pause, it counts no session as silent.
  Outbox Tick(SteadyTime now);
  // Changes the number of workers. If a generation is active, tells its members, which then stop
  // after a step that all agree on. The size changes when the generation has ended and rank 0 has
  // said that the state is saved, or a worker that is too many is lost: until then, the members
  // have the state, and a member that is lost, rank 0 as well, is waited for. If members of an
  // earlier leader's group bring their state, and that group had another number than the config, it
  // is formed again as it was, and has this number. Does nothing if the size is fixed, `workers` is
  // not from 1 to 100,000, or training is done.
  Outbox Resize(int workers, SteadyTime now);
  // The present number of slots, and of workers; both may be about to change. workers() is 0 if the
  // size is fixed.
  std::size_t size() const { return config_.slots.size(); }
  int workers() const { return config_.of_size ? config_.workers : 0; }

  std::uint64_t generation() const { return generation_; }  // the latest; 0: none yet
  bool active() const { return active_; }
  bool done() const { return done_; }  // every member was released
  bool drained() const;                // no session that has joined is left
  // Returns the slots that a new generation waits for, at most 256. Empty while a generation is
  // active or training is done.
  std::vector<std::string> Missing() const;
  std::set<std::string> MissingHosts() const;
  // Returns the pods, as "worker-1", whose processes were members under this leader or an earlier
  // one, and of which no process is left; at most 256. Empty once training is done. Pods that were
  // members only under an earlier leader are named after 30 s, because their processes may still be
  // looking for this leader.
  std::vector<std::string> LostPods() const;
  // Returns the members that hold up others, by rank, at most 8: while a generation is active,
  // those that others wait for in a training step; between generations, those that have not left
  // the ended generation within 40 s, while others wait to form the next one. Empty if all members
  // wait, or none does. The answer is as old as the members' latest heartbeats, so a member that is
  // named only briefly may just have been late.
  std::vector<proto::Straggler> Stragglers() const;
  // Returns the number of processes that have not left the last generation, however recently it
  // ended, so that the next one waits for them. Processes that still save or share their state do
  // not count. 0 while a generation is active or training is done.
  int StragglerCount() const;
  // Rank 0's latest report.
  const std::optional<proto::TrainerProgress>& progress() const { return progress_; }
  // Rank 0's activity; unknown while no generation is active.
  proto::Activity activity() const { return active_ ? activity_ : proto::ACTIVITY_UNKNOWN; }
  // Rank 0 could not save for another number of workers, and so the group keeps the one that it
  // has, also in the next generation if all members can be in that. So does a group that forms
  // again under another leading process: until it has formed, it cannot save either.
  bool keeps_workers() const {
    const bool forms_again = generation_ == 0 && !is_saved_;
    return (keeps_workers_ || forms_again) && IsResizing() && KeepsWorkers();
  }
  // True while rank 0's process says that it saves, also between generations.
  bool LeaderSaves() const;

 private:
  static constexpr std::size_t kMostNamed = 8;  // per list of Waiting: see rendezvous.proto
  enum class State { kConnected, kWaiting, kActive, kFinished, kLapsed, kReleased };
  struct Session {
    State state = State::kConnected;
    int rank = -1;
    std::string incarnation_id, fingerprint, address;
    Incarnation incarnation;
    std::int64_t step = -1;
    std::uint64_t last_generation = 0;
    SteadyTime connected, last_heard, lapsed;
    proto::Activity activity = proto::ACTIVITY_UNKNOWN;
    proto::StepPart step_part = proto::STEP_PART_UNKNOWN;
    bool leaves = false;              // has said that it takes part in no further generation
    bool is_of_another_size = false;  // it was told so, and may wait for a place
    int told = 0;                     // of a number that comes, while it waited
  };
  struct Lost {
    SteadyTime since;
    SteadyTime named_from;  // for LostPods
  };

  Outbox Join(SessionId id, const proto::Join& join);
  bool IsOfAnotherSize(const proto::Join& join);
  bool IsResizing() const { return wanted_workers_ != config_.workers && !done_; }
  bool KeepsWorkers() const;
  void TellMembersOfResize(Outbox& out) const;
  void TellLeaderOfResize(Outbox& out);
  void Settle(Outbox& out);
  void TakeSize(int workers, Outbox& out);
  Outbox JoinOfAnotherSize(SessionId id);
  bool BringsGroup(const proto::Join& join) const;
  void TakeSizeOfGroup(const proto::Join& join, Outbox& out);
  Outbox Lose(SessionId id, const std::string& reason);
  Outbox Finish(SessionId id, std::uint64_t generation);
  Outbox Leave(SessionId id);
  void TakeHeartbeat(Session& session, const proto::Heartbeat& heartbeat);
  struct Refusal {
    std::string reason, log;
  };
  std::optional<Refusal> CheckMembership(const proto::Join& join, int rank) const;
  std::optional<Refusal> CheckFingerprint(const proto::Join& join, int rank) const;
  bool IsOutdated(const proto::Join& join, const Session& holder) const;
  int RankOf(const proto::Join& join) const;  // -1: no such slot
  std::optional<SessionId> Holder(int rank) const;
  void SetState(Session& session, State state);
  Outbox Take(SessionId id, const proto::ReplicaMessage& message);
  void TakeRank(SessionId id, Session& session, int rank);
  void Erase(std::map<SessionId, Session>::iterator at);
  void UpdateAbsent();
  void NoteEarlierGroup(const proto::Join& join);
  bool IsBusy(int rank) const;
  bool IsStraggler(const Session& session, int rank) const;
  bool StaysBehind(const Session& session, int rank) const;
  bool IsGathering() const { return !active_ && !done_; }
  bool InGeneration(const Session& session) const;
  void Replace(SessionId old_id, const proto::Join& join, Outbox& out);
  void EndGeneration(SessionId culprit, const std::string& reason, Outbox& out);
  void StartIfComplete(Outbox& out);
  std::shared_ptr<const proto::CoordinatorMessage> Waiting() const;

  // Ten thousand members may join at once, so the cost of a call must not grow with their number.
  // Only Tick may visit every session.
  RosterConfig config_;
  int wanted_workers_;
  std::map<int, std::string> hashes_;  // of other numbers of workers that processes have come with
  std::map<SessionId, Session> sessions_;
  std::map<Slot, int> ranks_;
  std::vector<std::optional<SessionId>> holders_;  // by rank
  std::set<int> awaited_;                          // ranks without a waiting session
  std::set<int> absent_;  // the first few awaited ranks whose pod is absent or being replaced
  std::set<int> busy_;    // the first few awaited ranks that still save or share their state
  std::uint64_t generation_ = 0;
  bool active_ = false, done_ = false;
  bool knows_earlier_group_ = false;      // an earlier leader had all members in a generation
  std::uint64_t earlier_generation_ = 0;  // the latest one that a member was in under that leader
  bool after_loss_ = false;   // a member of the latest generation was lost, or its leader
  std::map<int, Lost> lost_;  // ranks without a process since it was lost
  std::set<std::string> without_address_;
  SteadyTime now_{};  // the latest call's `now`
  SteadyTime last_waiting_{}, last_tick_{};
  std::optional<proto::TrainerProgress> progress_;
  proto::Activity activity_ = proto::ACTIVITY_UNKNOWN;
  bool keeps_workers_ = false;  // as rank 0 says
  bool is_saved_ = true;        // what the latest group had in memory, for another number
};

}  // namespace lockstep::train
