#include "trainer/rendezvous/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"

namespace lockstep::train {
namespace {

Outgoing Reject(SessionId id, const std::string& reason, bool superseded = false) {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_rejected()->set_reason(reason);
  message->mutable_rejected()->set_superseded(superseded);
  return {.to = id, .message = std::move(message), .close = true};
}

// How long the members of an earlier leader's generation have to find this one before they are
// named as lost: to notice that leader's death, to connect in vain to whoever has its address now,
// and for DNS caches to forget that address.
constexpr Duration kMovesWithin = std::chrono::seconds(30);

std::shared_ptr<const proto::CoordinatorMessage> Released(std::uint64_t generation) {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_released()->set_generation(generation);
  return message;
}

// Drops values too long to be an IP address, because every member is sent all of them.
std::string AddressOf(const proto::Join& join) {
  constexpr std::size_t kLongest = 45;  // the longest IPv6 text
  return join.address().size() <= kLongest ? join.address() : "";
}

}  // namespace

std::string ToString(const Slot& slot) {
  const std::string pod = fmt::format("{} {}", slot.role, slot.index);
  return slot.local_rank == 0 ? pod : fmt::format("{} process {}", pod, slot.local_rank);
}

std::string PodOf(const Slot& slot) {
  return fmt::format("{}-{}", slot.role, slot.index);
}

Roster::Roster(RosterConfig config)
    : config_(std::move(config)), wanted_workers_(config_.workers), holders_(config_.slots.size()) {
  LOCKSTEP_CHECK(!config_.slots.empty(), "a roster of job {} without slots", config_.job);
  for (std::size_t rank = 0; rank < config_.slots.size(); ++rank) {
    ranks_.emplace(config_.slots[rank], static_cast<int>(rank));
    awaited_.insert(static_cast<int>(rank));
  }
}

void Roster::SetState(Session& session, State state) {
  session.state = state;
  if (session.rank < 0) return;
  if (state == State::kWaiting) {
    awaited_.erase(session.rank);
  } else {
    awaited_.insert(session.rank);
  }
}

// Gives the session this rank and sets it waiting.
void Roster::TakeRank(SessionId id, Session& session, int rank) {
  if (session.rank >= 0 && session.rank != rank) {
    holders_[static_cast<std::size_t>(session.rank)].reset();
    awaited_.insert(session.rank);
  }
  session.rank = rank;
  session.leaves = false;
  holders_[static_cast<std::size_t>(rank)] = id;
  SetState(session, State::kWaiting);
  lost_.erase(rank);
  absent_.erase(rank);
  busy_.erase(rank);
}

void Roster::Erase(std::map<SessionId, Session>::iterator at) {
  const Session& session = at->second;
  if (session.rank >= 0) {
    holders_[static_cast<std::size_t>(session.rank)].reset();
    awaited_.insert(session.rank);
    busy_.erase(session.rank);
    if (session.rank == 0) keeps_workers_ = false;
    // Another member may have noticed it first, and have ended the generation with its Join.
    if (generation_ > 0 && session.last_generation == generation_) after_loss_ = true;
  }
  sessions_.erase(at);
}

bool Roster::drained() const {
  return std::ranges::none_of(sessions_, [](const auto& entry) { return entry.second.rank >= 0; });
}

void Roster::Connect(SessionId id, SteadyTime now) {
  now_ = now;
  const auto [at, fresh] = sessions_.emplace(id, Session());
  LOCKSTEP_CHECK(fresh, "session {} connected twice", id);
  at->second.connected = at->second.last_heard = now;
}

Outbox Roster::Receive(SessionId id, const proto::ReplicaMessage& message, SteadyTime now) {
  now_ = now;
  Outbox out = Take(id, message);
  Settle(out);
  return out;
}

Outbox Roster::Take(SessionId id, const proto::ReplicaMessage& message) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return {};  // already replaced or declared dead
  at->second.last_heard = now_;
  switch (message.message_case()) {
    case proto::ReplicaMessage::kJoin:
      return Join(id, message.join());
    case proto::ReplicaMessage::kHeartbeat:
      TakeHeartbeat(at->second, message.heartbeat());
      return {};
    case proto::ReplicaMessage::kFinished:
      return Finish(id, message.finished().generation());
    case proto::ReplicaMessage::kLeaving:
      return Leave(id);
    case proto::ReplicaMessage::MESSAGE_NOT_SET:
      break;
  }
  return {};  // a newer protocol's message; the cluster hash refuses such members
}

Outbox Roster::Join(SessionId id, const proto::Join& join) {
  Outbox out;
  if (!done_ && IsOfAnotherSize(join)) {
    if (!BringsGroup(join)) return JoinOfAnotherSize(id);
    TakeSizeOfGroup(join, out);
  }
  const int rank = RankOf(join);
  std::optional<Refusal> refusal = CheckMembership(join, rank);
  if (done_ && refusal) {
    // Without Rejected: it may have looked up this address before a leader of its own had it, and
    // finds that one as soon as this pod has gone.
    return {{.to = id, .message = nullptr, .close = true, .log = std::move(refusal->log)}};
  }
  if (done_) return {{.to = id, .message = Released(generation_)}};
  if (!refusal) refusal = CheckFingerprint(join, rank);
  if (refusal) {
    Outgoing refused = Reject(id, refusal->reason);
    refused.log = std::move(refusal->log);
    out.push_back(std::move(refused));
    return out;
  }
  const std::optional<SessionId> holder = Holder(rank);
  if (holder && *holder != id && IsOutdated(join, sessions_.at(*holder))) {
    // Closes without Rejected, so that it may retry in case the later process goes away.
    Erase(sessions_.find(id));
    const std::string who = ToString(config_.slots[static_cast<std::size_t>(rank)]);
    return {{.to = id,
             .message = nullptr,
             .close = true,
             .log = fmt::format("process {} of {} is kept out: a later one has its place",
                                join.incarnation(), who)}};
  }
  Session& session = sessions_.at(id);
  if (InGeneration(session)) {
    const Slot& slot = config_.slots[static_cast<std::size_t>(rank)];
    EndGeneration(id, fmt::format("{} asked for a new generation", ToString(slot)), out);
  }
  if (holder && *holder != id) Replace(*holder, join, out);
  if (join.last_generation() > 0) NoteEarlierGroup(join);
  TakeRank(id, session, rank);
  session.incarnation_id = join.incarnation();
  session.incarnation = {join.pod_started(), join.process_number()};
  session.fingerprint = join.fingerprint();
  session.address = AddressOf(join);
  session.step = join.step();
  session.last_generation = join.last_generation();
  StartIfComplete(out);
  if (session.state == State::kWaiting) out.push_back({.to = id, .message = Waiting()});
  return out;
}

// A member of an earlier leader's generation has come, so all of them were there. Whoever does not
// join again within kMovesWithin was lost together with that leader.
void Roster::NoteEarlierGroup(const proto::Join& join) {
  if (generation_ > 0) return;
  earlier_generation_ = std::max(earlier_generation_, join.last_generation());
  if (join.step() > 0) is_saved_ = false;
  if (std::exchange(knows_earlier_group_, true)) return;
  after_loss_ = true;
  const std::string own = PodOf(config_.slots.front());
  for (const int rank : awaited_) {
    if (PodOf(config_.slots[static_cast<std::size_t>(rank)]) == own) continue;
    lost_.emplace(rank, Lost{.since = now_, .named_from = now_ + kMovesWithin});
  }
  UpdateAbsent();
}

int Roster::RankOf(const proto::Join& join) const {
  const auto at = ranks_.find(Slot{join.role(), join.index(), join.local_rank()});
  return at == ranks_.end() ? -1 : at->second;
}

// True if the newcomer is older than the process that holds its rank. The token, checked before,
// does not say which of two is later.
bool Roster::IsOutdated(const proto::Join& join, const Session& holder) const {
  return holder.incarnation_id != join.incarnation() &&
         Incarnation{join.pod_started(), join.process_number()} < holder.incarnation;
}

std::optional<SessionId> Roster::Holder(int rank) const {
  return rank < 0 ? std::nullopt : holders_[static_cast<std::size_t>(rank)];
}

bool Roster::InGeneration(const Session& session) const {
  return session.state == State::kActive || session.state == State::kFinished;
}

// Rejects the old process as superseded if a newer one takes its place. A new stream of the same
// process only means that the old stream broke.
void Roster::Replace(SessionId old_id, const proto::Join& join, Outbox& out) {
  const Session old = sessions_.at(old_id);
  const std::string slot = ToString(config_.slots[static_cast<std::size_t>(old.rank)]);
  const bool is_same = old.incarnation_id == join.incarnation();
  Erase(sessions_.find(old_id));
  if (InGeneration(old)) {
    const char* what = is_same ? "has lost its connection to the leader" : "was started again";
    EndGeneration(old_id, fmt::format("{} {}", slot, what), out);
  }
  if (is_same) {
    out.push_back({.to = old_id, .message = nullptr, .close = true});
    return;
  }
  out.push_back(Reject(old_id,
                       fmt::format("process {} of {} was replaced by process {}",
                                   old.incarnation_id, slot, join.incarnation()),
                       /*superseded=*/true));
}

void Roster::EndGeneration(SessionId culprit, const std::string& reason, Outbox& out) {
  active_ = false;
  const auto ended = std::make_shared<proto::CoordinatorMessage>();
  ended->mutable_generation_ended()->set_generation(generation_);
  ended->mutable_generation_ended()->set_reason(reason);
  for (auto& [id, session] : sessions_) {
    if (!InGeneration(session)) continue;
    SetState(session, State::kLapsed);
    session.lapsed = now_;
    if (id != culprit) out.push_back({.to = id, .message = ended});
  }
}

void Roster::StartIfComplete(Outbox& out) {
  if (!awaited_.empty() || (IsResizing() && !KeepsWorkers())) return;
  for (const std::optional<SessionId> id : holders_) {
    generation_ = std::max(generation_, sessions_.at(*id).last_generation);
  }
  ++generation_;
  active_ = true;
  is_saved_ = false;
  activity_ = proto::ACTIVITY_UNKNOWN;
  const auto message = std::make_shared<proto::CoordinatorMessage>();
  proto::Membership& membership = *message->mutable_membership();
  membership.set_generation(generation_);
  membership.set_after_loss(std::exchange(after_loss_, false));
  for (std::size_t rank = 0; rank < holders_.size(); ++rank) {
    const Slot& slot = config_.slots[rank];
    Session& session = sessions_.at(*holders_[rank]);
    SetState(session, State::kActive);
    session.last_generation = generation_;
    session.activity = proto::ACTIVITY_UNKNOWN;  // what it has told was of the last generation
    session.step_part = proto::STEP_PART_UNKNOWN;
    proto::Member& member = *membership.add_members();
    member.set_role(slot.role);
    member.set_index(slot.index);
    member.set_local_rank(slot.local_rank);
    member.set_step(session.step);
    member.set_address(session.address);
  }
  for (const std::optional<SessionId> id : holders_) out.push_back({.to = *id, .message = message});
  // Not all were in the last generation, and the number may have changed since.
  if (config_.of_size) TellMembersOfResize(out);
}

void Roster::TakeHeartbeat(Session& session, const proto::Heartbeat& heartbeat) {
  session.activity = heartbeat.activity();
  session.step_part = heartbeat.step_part();
  const bool led = session.rank == 0 && generation_ > 0 && session.last_generation == generation_;
  if (!led) return;
  // Also after its generation: it saves then, perhaps, or tells its last numbers before it ends.
  keeps_workers_ = heartbeat.keeps_workers();
  is_saved_ = heartbeat.is_saved();
  const bool is_current = InGeneration(session) && heartbeat.generation() == generation_;
  if (heartbeat.has_progress() && (is_current || !active_)) progress_ = heartbeat.progress();
  if (is_current) activity_ = heartbeat.activity();
}

Outbox Roster::Finish(SessionId id, std::uint64_t generation) {
  Session& finished = sessions_.at(id);
  if (finished.state != State::kActive || generation != generation_) return {};
  SetState(finished, State::kFinished);
  for (const auto& [other, session] : sessions_) {
    if (session.state == State::kActive) return {};
  }
  active_ = false;
  done_ = true;
  Outbox out;
  const auto released = Released(generation_);
  for (auto& [other, session] : sessions_) {
    if (session.state != State::kFinished) continue;
    SetState(session, State::kReleased);
    out.push_back({.to = other, .message = released});
  }
  return out;
}

// Its place stays its own, so that the others wait while it saves its state.
Outbox Roster::Leave(SessionId id) {
  Session& leaver = sessions_.at(id);
  leaver.leaves = true;
  Outbox out;
  if (InGeneration(leaver)) {
    const Slot& slot = config_.slots[static_cast<std::size_t>(leaver.rank)];
    EndGeneration(id, fmt::format("{} leaves", ToString(slot)), out);
  } else if (leaver.state == State::kWaiting) {
    SetState(leaver, State::kLapsed);
    leaver.lapsed = now_;
  }
  return out;
}

Outbox Roster::Disconnect(SessionId id, const std::string& reason) {
  Outbox out = Lose(id, reason);
  Settle(out);
  return out;
}

Outbox Roster::Lose(SessionId id, const std::string& reason) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return {};
  const Session lost = at->second;
  Erase(at);
  if (lost.rank >= 0) {
    lost_.emplace(lost.rank, Lost{.since = now_, .named_from = now_});
    if (absent_.size() < kMostNamed) absent_.insert(lost.rank);
  }
  Outbox out;
  if (InGeneration(lost)) {
    const std::string slot = ToString(config_.slots[static_cast<std::size_t>(lost.rank)]);
    EndGeneration(id, fmt::format("lost {}: {}", slot, reason), out);
  }
  return out;
}

Outbox Roster::Tick(SteadyTime now) {
  now_ = now;
  // If this process itself was paused, heartbeats may lie unread; silence then proves nothing.
  const bool was_away = now - last_tick_ > config_.dead_after / 2;
  last_tick_ = now;
  std::vector<SessionId> dead;
  for (auto& [id, session] : sessions_) {
    if (was_away) session.last_heard = now;
  }
  std::vector<SessionId> strangers;
  for (const auto& [id, session] : sessions_) {
    if (now - session.last_heard >= config_.dead_after) {
      dead.push_back(id);
    } else if (session.state == State::kConnected && !session.is_of_another_size &&
               now - session.connected >= 2 * config_.dead_after) {
      strangers.push_back(id);  // a member would have joined at once
    }
  }
  Outbox out;
  for (const SessionId id : strangers) {
    Erase(sessions_.find(id));
    out.push_back({.to = id, .message = nullptr, .close = true});
  }
  for (const SessionId id : dead) {
    const double seconds = std::chrono::duration<double>(config_.dead_after).count();
    Outbox more = Lose(id, fmt::format("no heartbeat for {} s", seconds));
    out.insert(out.end(), more.begin(), more.end());
    out.push_back({.to = id, .message = nullptr, .close = true});
  }
  Settle(out);
  if (now - last_waiting_ < config_.waiting_every) return out;
  last_waiting_ = now;
  UpdateAbsent();
  const auto waiting = Waiting();
  for (const auto& [id, session] : sessions_) {
    if (session.state == State::kWaiting) out.push_back({.to = id, .message = waiting});
  }
  return out;
}

}  // namespace lockstep::train
