// Who is in: the rendezvous's rules as a pure state machine. No threads, sockets or clock; each
// call returns what is to be sent. The service around it owns the streams.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/base/clock.h"
#include "api/proto/rendezvous.pb.h"

namespace lockstep::train {

// One open stream. Never used twice.
using SessionId = std::uint64_t;

// A place in the world, held by one process at a time.
struct Slot {
  std::string role;
  int index = 0, local_rank = 0;
  auto operator<=>(const Slot&) const = default;
};
std::string ToString(const Slot& slot);  // "worker 1", "worker 1 process 2"

struct RosterConfig {
  std::string job, job_uid, cluster_hash;
  std::vector<Slot> slots;  // by rank
  Duration dead_after = std::chrono::seconds(5);
  Duration waiting_every = std::chrono::seconds(1);
};

struct Outgoing {
  SessionId to = 0;
  std::optional<proto::CoordinatorMessage> message;
  bool close = false;  // end the stream after the message
};
using Outbox = std::vector<Outgoing>;

// A generation starts when every slot's process has asked for it, and ends when one of them is
// lost, asks again or is replaced. Numbers only rise, above every number that any member has seen,
// so that no message of an ended generation can be taken for one of the current.
class Roster {
 public:
  explicit Roster(RosterConfig config);

  void Connect(SessionId id, SteadyTime now);
  Outbox Receive(SessionId id, const proto::ReplicaMessage& message, SteadyTime now);
  // The stream is gone. A loss, unless training is done or the process was only waiting.
  Outbox Disconnect(SessionId id, const std::string& reason);
  // Drops sessions that have been silent for dead_after; tells those who wait who is missing. Call
  // it at least every dead_after / 2.
  Outbox Tick(SteadyTime now);

  std::uint64_t generation() const { return generation_; }  // the latest; 0: none yet
  bool active() const { return active_; }
  bool done() const { return done_; }  // every member was released
  bool empty() const { return sessions_.empty(); }
  // Slots that a new generation waits for; empty while one is active or training is done.
  std::vector<std::string> Missing() const;
  // Rank 0's latest report.
  const std::optional<proto::TrainerProgress>& progress() const { return progress_; }
  // What rank 0 is doing; unknown while no generation is active.
  proto::Activity activity() const { return active_ ? activity_ : proto::ACTIVITY_UNKNOWN; }

 private:
  enum class State { kConnected, kWaiting, kActive, kFinished, kLapsed, kReleased };
  struct Session {
    State state = State::kConnected;
    int rank = -1;
    std::string incarnation, layout;
    std::int64_t step = -1;
    std::uint64_t last_generation = 0;
    SteadyTime last_heard;
  };

  Outbox Join(SessionId id, const proto::Join& join);
  Outbox Finish(SessionId id, std::uint64_t generation);
  void TakeHeartbeat(const Session& session, const proto::Heartbeat& heartbeat);
  absl::Status Check(const proto::Join& join, int rank) const;
  int RankOf(const proto::Join& join) const;  // -1: no such slot
  std::optional<SessionId> Holder(int rank) const;
  bool InGeneration(const Session& session) const;
  void Replace(SessionId old_id, const std::string& incarnation, Outbox& out);
  void EndGeneration(SessionId culprit, const std::string& reason, Outbox& out);
  void StartIfComplete(Outbox& out);
  Outgoing WaitingFor(SessionId id) const;

  const RosterConfig config_;
  std::map<SessionId, Session> sessions_;
  std::uint64_t generation_ = 0;
  bool active_ = false, done_ = false;
  SteadyTime last_waiting_{}, last_tick_{};
  std::optional<proto::TrainerProgress> progress_;
  proto::Activity activity_ = proto::ACTIVITY_UNKNOWN;
};

}  // namespace lockstep::train
