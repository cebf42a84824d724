// The roster's reports on its members: which are refused, missing or lost.
#include <fmt/format.h>

#include "trainer/rendezvous/fingerprint.h"
#include "trainer/rendezvous/roster.h"

namespace lockstep::train {
namespace {

// The highest number accepted from a member: above it, numbers could overflow within a job's life.
constexpr std::uint64_t kHighestGeneration = std::uint64_t{1} << 62;

constexpr std::size_t kMostNames = 256;  // per list of TrainerStatus: see trainer_status.proto

// Longer than a process pauses before it joins again, or its communicator waits for the others.
constexpr Duration kHangsAfter = std::chrono::seconds(40);

}  // namespace

std::optional<Roster::Refusal> Roster::CheckMembership(const proto::Join& join, int rank) const {
  const std::string who = ToString(Slot{join.role(), join.index(), join.local_rank()});
  if (join.job() != config_.job) {
    return Refusal{
        fmt::format("{} is of job \"{}\", which is not this rendezvous's", who, join.job()),
        fmt::format("refused: {} of job \"{}\", expected job \"{}\"", who, join.job(),
                    config_.job)};
  }
  if (join.cluster_hash() != config_.cluster_hash) {
    return Refusal{
        fmt::format("{} has the cluster hash \"{}\", which is not the leader's; its log says how "
                    "they differ",
                    who, join.cluster_hash()),
        fmt::format("refused: {} with the cluster hash \"{}\", expected \"{}\"", who,
                    join.cluster_hash(), config_.cluster_hash)};
  }
  if (rank < 0) {
    return Refusal{fmt::format("{} is not one of the members of job \"{}\"", who, config_.job),
                   fmt::format("refused: {}, which is not one of the {} members, {} to {}", who,
                               config_.slots.size(), ToString(config_.slots.front()),
                               ToString(config_.slots.back()))};
  }
  if (join.last_generation() > kHighestGeneration) {
    return Refusal{fmt::format("{} claims to have been in generation {}, expected at most {}", who,
                               join.last_generation(), kHighestGeneration),
                   ""};
  }
  return std::nullopt;
}

// All joined processes have the same fingerprint, so comparing with any one suffices. A caller with
// the cluster hash may learn how its own differs.
std::optional<Roster::Refusal> Roster::CheckFingerprint(const proto::Join& join, int rank) const {
  const std::string who = ToString(Slot{join.role(), join.index(), join.local_rank()});
  for (std::size_t at = 0; at < holders_.size(); ++at) {
    if (!holders_[at] || static_cast<int>(at) == rank) continue;
    const Session& session = sessions_.at(*holders_[at]);
    const auto difference = FirstDifference(join.fingerprint(), session.fingerprint);
    if (!difference) break;
    const std::string other = ToString(config_.slots[at]);
    return Refusal{fmt::format("{} has {}, expected {} as {} has it", who, difference->own,
                               difference->other, other),
                   fmt::format("refused: {} with {}, expected {} as {} has it", who,
                               difference->own, difference->other, other)};
  }
  return std::nullopt;
}

std::vector<std::string> Roster::Missing() const {
  std::vector<std::string> names;
  if (!IsGathering()) return names;
  for (const int rank : awaited_) {
    if (names.size() == kMostNames) break;
    names.push_back(ToString(config_.slots[static_cast<std::size_t>(rank)]));
  }
  return names;
}

std::set<std::string> Roster::MissingHosts() const {
  std::set<std::string> hosts;
  if (config_.hosts.empty() || !IsGathering()) return hosts;
  for (const int rank : awaited_) hosts.insert(config_.hosts[static_cast<std::size_t>(rank)]);
  hosts.erase("");  // of workers that the leader's cluster spec does not have
  return hosts;
}

// True if the rank's process has yet to notice that its generation has ended, because it saves or
// shares its state.
bool Roster::IsBusy(int rank) const {
  const std::optional<SessionId> holder = Holder(rank);
  if (!holder) return false;
  const Session& session = sessions_.at(*holder);
  return session.state == State::kLapsed && now_ - session.lapsed < config_.busy_within &&
         (session.activity == proto::ACTIVITY_CHECKPOINT ||
          session.activity == proto::ACTIVITY_SHARING_STATE);
}

bool Roster::LeaderSaves() const {
  const std::optional<SessionId> leader = Holder(0);
  return leader && sessions_.at(*leader).activity == proto::ACTIVITY_CHECKPOINT;
}

void Roster::UpdateAbsent() {
  busy_.clear();
  for (const int rank : awaited_) {
    if (busy_.size() == kMostNamed) break;
    if (IsBusy(rank)) busy_.insert(rank);
  }
  absent_.clear();
  for (const int rank : awaited_) {
    if (absent_.size() == kMostNamed) break;
    const bool has_none = !config_.hosts.empty() &&
                          without_address_.contains(config_.hosts[static_cast<std::size_t>(rank)]);
    const auto lost = lost_.find(rank);
    const bool may_go = lost != lost_.end() && now_ - lost->second.since < config_.given_up_within;
    if (has_none || may_go) absent_.insert(rank);
  }
}

std::vector<std::string> Roster::LostPods() const {
  std::set<std::string> present;
  for (const auto& [id, session] : sessions_) {
    if (session.rank < 0) continue;
    present.insert(PodOf(config_.slots[static_cast<std::size_t>(session.rank)]));
  }
  std::vector<std::string> lost;
  for (const auto& [rank, loss] : lost_) {  // ascending, so a pod's processes are adjacent
    if (now_ < loss.named_from) continue;
    const std::string pod = PodOf(config_.slots[static_cast<std::size_t>(rank)]);
    if (done_ || lost.size() == kMostNames) break;
    if (!present.contains(pod) && (lost.empty() || lost.back() != pod)) lost.push_back(pod);
  }
  return lost;
}

std::vector<proto::Straggler> Roster::Stragglers() const {
  std::vector<proto::Straggler> stragglers;
  bool does_one_wait = false;
  for (std::size_t rank = 0; rank < holders_.size(); ++rank) {
    if (!holders_[rank]) continue;
    const Session& session = sessions_.at(*holders_[rank]);
    const bool waits =
        active_ ? session.step_part == proto::STEP_PART_PEERS : session.state == State::kWaiting;
    does_one_wait = does_one_wait || waits;
    if (waits || !IsStraggler(session, static_cast<int>(rank))) continue;
    if (stragglers.size() == kMostNamed) continue;
    proto::Straggler& straggler = stragglers.emplace_back();
    straggler.set_replica(PodOf(config_.slots[rank]));
    straggler.set_rank(static_cast<int>(rank));
    straggler.set_activity(session.activity);
    straggler.set_step_part(session.step_part);
  }
  if (!does_one_wait) stragglers.clear();
  return stragglers;
}

int Roster::StragglerCount() const {
  if (!IsGathering()) return 0;
  int count = 0;
  for (const int rank : awaited_) {
    const std::optional<SessionId> holder = Holder(rank);
    if (holder && StaysBehind(sessions_.at(*holder), rank)) ++count;
  }
  return count;
}

// True for a process that still is in the last generation, whose end it has not noticed. One that
// saves or shares its state has its own time.
bool Roster::StaysBehind(const Session& session, int rank) const {
  return session.state == State::kLapsed && !session.leaves && !IsBusy(rank);
}

// True if it is known what keeps the process busy. Between generations, it may just pause before it
// joins again.
bool Roster::IsStraggler(const Session& session, int rank) const {
  if (!active_) return StaysBehind(session, rank) && now_ - session.lapsed >= kHangsAfter;
  if (session.activity == proto::ACTIVITY_UNKNOWN) return false;
  return session.activity != proto::ACTIVITY_STEP || session.step_part != proto::STEP_PART_UNKNOWN;
}

std::shared_ptr<const proto::CoordinatorMessage> Roster::Waiting() const {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  proto::Waiting& waiting = *message->mutable_waiting();
  waiting.set_missing_count(static_cast<std::uint32_t>(awaited_.size()));
  for (const int rank : awaited_) {
    if (waiting.missing_size() == static_cast<int>(kMostNamed)) break;
    waiting.add_missing(ToString(config_.slots[static_cast<std::size_t>(rank)]));
  }
  for (const int rank : absent_) {
    waiting.add_absent(ToString(config_.slots[static_cast<std::size_t>(rank)]));
  }
  for (const int rank : busy_) {
    waiting.add_busy(ToString(config_.slots[static_cast<std::size_t>(rank)]));
  }
  return message;
}

}  // namespace lockstep::train
