// The client's connection to the leader, and what it makes of the leader's messages.
#include <fmt/format.h>

#include <utility>

#include "base/hmac.h"
#include "trainer/rendezvous/grpc_rendezvous.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kLeaderNonceBytes = 32;

// Returns nullopt if the one who asked with `join` is not among the members.
std::optional<Membership> FromProto(const proto::Membership& message, const proto::Join& join) {
  Membership membership{.generation = message.generation(), .rank = -1, .members = {}};
  for (const proto::Member& member : message.members()) {
    const bool is_own = member.role() == join.role() && member.index() == join.index() &&
                        member.local_rank() == join.local_rank();
    if (is_own) membership.rank = membership.world();
    membership.members.push_back(
        {member.role(), member.index(), member.local_rank(), member.step(), member.address()});
  }
  return membership.rank < 0 ? std::nullopt : std::optional(std::move(membership));
}

}  // namespace

// Returns the stream; opens a new one if there is none or it broke.
std::shared_ptr<RendezvousStream> RendezvousClient::Connected() {
  {
    const std::lock_guard lock(mutex_);
    if (stream_ && !broken_) return stream_;
  }
  Disconnect();
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++connection_;
    nonce_ = token_.present() ? RandomBytes(kLeaderNonceBytes) : "";
    leader_proven_ = !token_.present();
    prove_by_ = clock_.SteadyNow() + options_.proof_patience;
    wait_.OnConnecting();
  }
  RendezvousStream::Events events;
  events.received = [this, number](const auto& message) { Received(number, message); };
  events.broken = [this, number](const std::string& reason) { Broken(number, reason); };
  auto stream = std::make_shared<RendezvousStream>(address_, std::move(events));
  const std::lock_guard lock(mutex_);
  stream_ = stream;
  return stream;
}

void RendezvousClient::Disconnect() {
  std::shared_ptr<RendezvousStream> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(stream_, nullptr);
    ++connection_;
    broken_ = false;
    wait_.OnSilence();
    wait_.OnWaiting({});
    challenge_.Clear();
    join_proof_.clear();
    leader_proven_ = false;
  }
  // Destroys `old` without the lock: its destructor joins a thread that may need the lock.
}

void RendezvousClient::Received(int connection, const proto::CoordinatorMessage& message) {
  std::unique_lock lock(mutex_);
  if (connection != connection_ || broken_ || !MayBelieve(message)) return;
  if (leader_proven_) wait_.OnMessage();
  switch (message.message_case()) {
    case proto::CoordinatorMessage::kMembership:
      wait_.OnAdmitted();
      if (phase_ != Phase::kJoining) break;
      if (auto membership = FromProto(message.membership(), join_); membership) {
        lost_member_ = membership_.generation > 0 && message.membership().after_loss();
        membership_ = *std::move(membership);
      } else {
        Distrust("its list of members does not have this process");
        break;
      }
      phase_ = Phase::kMember;
      wait_.OnWaiting({});
      break;
    case proto::CoordinatorMessage::kGenerationEnded:
      if (message.generation_ended().generation() != membership_.generation) break;
      EndGeneration(lock, message.generation_ended().reason());
      break;
    case proto::CoordinatorMessage::kRejected:
      rejected_ = message.rejected();
      EndGeneration(lock, message.rejected().reason());
      break;
    case proto::CoordinatorMessage::kWaiting:
      wait_.OnAdmitted();
      wait_.OnWaiting(message.waiting());
      break;
    case proto::CoordinatorMessage::kChallenge:
      challenge_ = message.challenge();
      break;
    case proto::CoordinatorMessage::kReleased:
      phase_ = Phase::kReleased;
      break;
    case proto::CoordinatorMessage::kResized:
      wait_.OnAdmitted();
      Resized(message.resized());
      break;
    case proto::CoordinatorMessage::kLeaderProof:
    case proto::CoordinatorMessage::MESSAGE_NOT_SET:
      break;
  }
  changed_.notify_all();
}

// A process without state or generation, for which the group has no place, waits for one. Any other
// starts again: another size needs other ops, and what is in the memory of one that has lost its
// place is older than the checkpoint that the others go on from.
void RendezvousClient::Resized(const proto::Resized& resized) {
  const int workers = resized.workers();
  if (workers < 1) return;
  is_coming_ = resized.is_coming();
  if (phase_ == Phase::kJoining && !is_coming_) keeps_workers_ = false;  // the group has it by now
  const bool has_place = !own_worker_ || *own_worker_ < workers;
  const bool is_fresh = phase_ != Phase::kMember && membership_.generation == 0 && join_.step() < 0;
  if (workers == workers_) {  // as before after all, or at last
    new_workers_ = 0;
    if (phase_ == Phase::kJoining) phase_ = Phase::kIdle;  // JoinNext asks again
  } else if (has_place || !is_fresh) {
    new_workers_ = has_place ? workers : workers_;
  } else {
    proto::Waiting waiting;
    const std::string what = fmt::format("a place in the group of {} workers", workers);
    waiting.add_missing(what);
    waiting.add_absent(what);
    waiting.set_missing_count(1);
    wait_.OnWaiting(std::move(waiting));
  }
}

// Returns true for messages of the job's leader, and for a challenge, which may come from anybody:
// the address of a leading pod that is gone may be a stranger's by now. Distrusts who sends
// anything else.
bool RendezvousClient::MayBelieve(const proto::CoordinatorMessage& message) {
  if (leader_proven_) return true;
  if (message.has_challenge() && challenge_.nonce().empty()) return true;
  leader_proven_ =
      message.has_leader_proof() && !join_proof_.empty() &&
      token_.Accepts(api::kProofOfLeader, nonce_, join_proof_, message.leader_proof().proof());
  if (!leader_proven_) Distrust(kUnproven);
  return leader_proven_;
}

// Gives the connection up, so that Join connects again.
void RendezvousClient::Distrust(const std::string& reason) {
  broken_ = true;
  wait_.OnSilence();
  wait_.SetBrokenReason(reason);
  changed_.notify_all();
}

void RendezvousClient::Broken(int connection, const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (connection != connection_ || broken_) return;
  broken_ = true;
  wait_.OnSilence();
  wait_.SetBrokenReason(reason);
  EndGeneration(lock, fmt::format("lost the rendezvous at {}: {}", address_, reason));
  changed_.notify_all();
}

// If there is a generation, ends it and calls the callback with the lock released.
void RendezvousClient::EndGeneration(std::unique_lock<std::mutex>& lock,
                                     const std::string& reason) {
  if (phase_ != Phase::kMember) return;
  phase_ = Phase::kIdle;
  ended_reason_ = reason;
  telling_end_ = true;
  const auto callback = on_generation_end_;
  const std::uint64_t generation = membership_.generation;
  lock.unlock();
  callback(generation, reason);
  lock.lock();
  telling_end_ = false;
}

}  // namespace lockstep::train
