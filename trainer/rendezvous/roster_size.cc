// How the roster changes its number of workers.
#include <algorithm>
#include <memory>
#include <utility>

#include "trainer/rendezvous/roster.h"

namespace lockstep::train {
namespace {

constexpr int kMostWorkers = 100'000;
constexpr std::size_t kMostHashes = 16;

std::shared_ptr<const proto::CoordinatorMessage> Resized(int workers, bool is_coming) {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_resized()->set_workers(workers);
  message->mutable_resized()->set_is_coming(is_coming);
  return message;
}

}  // namespace

Outbox Roster::Resize(int workers, SteadyTime now) {
  now_ = now;
  Outbox out;
  if (!config_.of_size || workers < 1 || workers > kMostWorkers) return out;
  if (std::exchange(wanted_workers_, workers) == workers || done_) return out;
  if (active_) TellMembersOfResize(out);
  Settle(out);
  return out;
}

void Roster::TellMembersOfResize(Outbox& out) const {
  const auto message = Resized(wanted_workers_, /*is_coming=*/true);
  for (const auto& [id, session] : sessions_) {
    if (InGeneration(session)) out.push_back({.to = id, .message = message});
  }
}

// Its answer is that the state is saved, and that it leaves, or that it keeps its number.
void Roster::TellLeaderOfResize(Outbox& out) {
  const std::optional<SessionId> leader = Holder(0);
  if (!leader) return;
  Session& session = sessions_.at(*leader);
  if (session.state != State::kWaiting) return;
  if (std::exchange(session.told, wanted_workers_) == wanted_workers_) return;
  out.push_back({.to = *leader, .message = Resized(wanted_workers_, /*is_coming=*/true)});
}

// True while only the memory of the processes may have their state, so that a lost member is waited
// for as ever, and the group does not start again without it. Where rank 0 is lost, its successor
// gets the state from the others and saves it. The pod of a worker that is too many does not come
// back, once it is lost.
bool Roster::KeepsWorkers() const {
  return !is_saved_ && std::ranges::none_of(lost_, [this](const auto& lost) {
    const Slot& slot = config_.slots[static_cast<std::size_t>(lost.first)];
    const bool is_too_many =
        slot.role == api::RoleName(api::Role::kWorker) && slot.index >= wanted_workers_;
    return is_too_many && now_ >= lost.second.named_from;
  });
}

// True for a process that differs from the members only in the number of workers that it knows of:
// its pod was created before, or after, the group had this size.
bool Roster::IsOfAnotherSize(const proto::Join& join) {
  if (!config_.of_size || join.job() != config_.job) return false;
  if (join.cluster_hash() == config_.cluster_hash) return false;
  const int workers = join.workers();
  if (workers < 1 || workers > kMostWorkers || workers == config_.workers) return false;
  if (hashes_.size() >= kMostHashes) hashes_.clear();
  const auto [hash, is_new] = hashes_.try_emplace(workers);
  if (is_new) hash->second = config_.of_size(workers).cluster_hash;
  return hash->second == join.cluster_hash();
}

// It is told the size that it will find, and comes back as a process of that. If it is a member,
// because its stream is older than the size, the generation that it has left has ended already.
Outbox Roster::JoinOfAnotherSize(SessionId id) {
  sessions_.at(id).is_of_another_size = true;
  return {{.to = id, .message = Resized(config_.workers, /*is_coming=*/false)}};
}

// True for a member of an earlier leader's group, which was of another size, and of which it may
// have the latest state. This leader's pod knows only the number that its job is to have.
bool Roster::BringsGroup(const proto::Join& join) const {
  if (generation_ > 0 || join.step() <= 0) return false;
  if (join.last_generation() <= earlier_generation_) return false;
  const std::optional<SessionId> holder = Holder(RankOf(join));
  return !holder || !IsOutdated(join, sessions_.at(*holder));
}

// The group is formed as it was, because only its members' memory may have the state, and keeps its
// number until this leader is told another one.
void Roster::TakeSizeOfGroup(const proto::Join& join, Outbox& out) {
  wanted_workers_ = join.workers();
  TakeSize(join.workers(), out);
  knows_earlier_group_ = false;  // of that size
}

// Changes the size once no generation is active and the state is saved.
void Roster::Settle(Outbox& out) {
  if (active_ || !IsResizing()) return;
  if (KeepsWorkers()) return TellLeaderOfResize(out);
  is_saved_ = true;
  TakeSize(wanted_workers_, out);
}

// All who have joined or wait must come back: they were told of another size.
void Roster::TakeSize(int workers, Outbox& out) {
  static_cast<RosterSize&>(config_) = config_.of_size(workers);
  const auto message = Resized(config_.workers, /*is_coming=*/false);
  const int most = static_cast<int>(config_.slots.size());
  for (auto& [id, session] : sessions_) {
    if (session.state == State::kWaiting) {
      session.state = State::kLapsed;
      session.lapsed = now_;
      out.push_back({.to = id, .message = message});
    } else if (session.state == State::kConnected && session.is_of_another_size) {
      out.push_back({.to = id, .message = message});
    }
    if (session.rank < most) continue;
    session.rank = -1;
    session.state = State::kConnected;
    session.connected = now_;
  }
  holders_.resize(config_.slots.size());
  ranks_.clear();
  awaited_.clear();
  for (int rank = 0; rank < most; ++rank) {
    ranks_.emplace(config_.slots[static_cast<std::size_t>(rank)], rank);
    awaited_.insert(rank);
  }
  std::erase_if(lost_, [most](const auto& lost) { return lost.first >= most; });
  UpdateAbsent();
}

}  // namespace lockstep::train
