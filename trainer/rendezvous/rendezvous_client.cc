#include "trainer/rendezvous/rendezvous_client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/hmac.h"
#include "base/status.h"
#include "base/stop_signal.h"
#include "trainer/rendezvous/generation_store.h"
#include "trainer/rendezvous/grpc_options.h"
#include "trainer/rendezvous/heartbeat.h"
#include "trainer/rendezvous/join_wait.h"
#include "trainer/rendezvous/rendezvous_stream.h"

namespace lockstep::train {
namespace {

// Waits poll the stop flag at this period: a signal handler cannot notify a condition variable.
constexpr auto kStopPoll = std::chrono::milliseconds(50);

constexpr std::size_t kLeaderNonceBytes = 32;

constexpr char kUnproven[] =
    "it does not prove that it knows the job's token, as a leader of this version does";

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

class RendezvousClient final : public Rendezvous {
 public:
  RendezvousClient(const Identity& identity, const Clock& clock, RendezvousClientOptions options);
  ~RendezvousClient() override;

  absl::StatusOr<Membership> Join(std::int64_t step, const std::string& fingerprint) override;
  void WithholdAddress() override;
  void OnGenerationEnd(EndCallback callback) override;
  KeyValueStore& store() override { return store_; }
  void Report(const api::Progress& progress) override { heartbeat_->Report(progress); }
  void SetActivity(api::Activity activity) override { heartbeat_->SetActivity(activity); }
  bool StopRequested() const override { return options_.stop_requested(); }
  absl::Status Finish() override;

 private:
  enum class Phase { kIdle, kJoining, kMember, kReleased };

  std::shared_ptr<RendezvousStream> Connected();
  void Disconnect();
  void Received(int connection, const proto::CoordinatorMessage& message);
  bool MayBelieve(const proto::CoordinatorMessage& message);
  void Distrust(const std::string& reason);
  void Broken(int connection, const std::string& reason);
  void EndGeneration(std::unique_lock<std::mutex>& lock, const std::string& reason);
  std::optional<absl::StatusOr<Membership>> Answer();
  absl::StatusOr<Membership> JoinNext(std::unique_lock<std::mutex>& lock);
  void Leave(std::unique_lock<std::mutex>& lock);
  absl::Status WaitForChange(std::unique_lock<std::mutex>& lock, SteadyTime until);
  absl::Status SendJoin(std::unique_lock<std::mutex>& lock);

  const std::string address_;
  const api::JobToken token_;
  const Clock& clock_;
  const RendezvousClientOptions options_;

  std::mutex mutex_;
  proto::Join join_;  // constant fields, and the latest values of the others
  std::condition_variable_any changed_;
  std::shared_ptr<RendezvousStream> stream_;  // null: not connected
  int connection_ = 0;                        // stream_'s number: older streams' events are dropped
  bool broken_ = false;                       // stream_ is broken, or not the leader's
  std::string nonce_;                         // for stream_'s leader, which proves the token for it
  bool leader_proven_ = false;                // stream_'s other end may be believed
  SteadyTime prove_by_{};                     // until when stream_'s leader must be proven
  proto::Challenge challenge_;                // of stream_; empty: not received yet
  std::string join_proof_;                    // of the latest Join on stream_
  Phase phase_ = Phase::kIdle;
  Membership membership_;
  std::string ended_reason_;
  std::optional<proto::Rejected> rejected_;
  JoinWait wait_;
  EndCallback on_generation_end_ = [](std::uint64_t, const std::string&) {};
  bool telling_end_ = false;  // on_generation_end_ is running

  GenerationStore store_;
  std::optional<Heartbeat> heartbeat_;
};

RendezvousClient::RendezvousClient(const Identity& identity, const Clock& clock,
                                   RendezvousClientOptions options)
    : address_(identity.rendezvous_address.empty() ? identity.LeaderAddress()
                                                   : identity.rendezvous_address),
      token_(identity.token),
      clock_(clock),
      options_(std::move(options)),
      wait_(address_, options_, clock),
      store_(identity.token, [this] {
        const std::lock_guard lock(mutex_);
        if (phase_ != Phase::kMember || broken_) return GenerationStore::Target{};
        return GenerationStore::Target{stream_, membership_.generation, challenge_};
      }) {
  StartGrpc();
  join_.set_cluster_hash(identity.ClusterHash());
  join_.set_job(identity.job);
  join_.set_role(std::string(api::RoleName(identity.role)));
  join_.set_index(identity.index);
  join_.set_local_rank(identity.local_rank);
  join_.set_pod_started(identity.incarnation.pod_started);
  join_.set_process_number(identity.incarnation.process_number);
  join_.set_address(identity.pod_ip);
  join_.set_incarnation(fmt::format("{}-{:x}", getpid(), clock.Now().time_since_epoch().count()));
  heartbeat_.emplace(clock, options_.heartbeat_every, [this] {
    const std::lock_guard lock(mutex_);
    if (!leader_proven_) return Heartbeat::Target{};
    return Heartbeat::Target{stream_, phase_ == Phase::kMember ? membership_.generation : 0};
  });
}

RendezvousClient::~RendezvousClient() {
  heartbeat_.reset();  // before the stream that it uses
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::kIdle;  // no callback for an end that this destructor causes
  }
  Disconnect();
}

absl::StatusOr<Membership> RendezvousClient::Join(std::int64_t step,
                                                  const std::string& fingerprint) {
  std::unique_lock lock(mutex_);
  wait_.Begin();
  join_.set_step(step);
  join_.set_fingerprint(fingerprint);
  absl::StatusOr<Membership> membership = JoinNext(lock);
  if (!membership.ok()) Leave(lock);
  return membership;
}

// Without this, the leader would count this process in while it saves its state.
void RendezvousClient::Leave(std::unique_lock<std::mutex>& lock) {
  if (phase_ != Phase::kJoining || !stream_ || broken_) return;
  phase_ = Phase::kIdle;
  proto::ReplicaMessage message;
  message.mutable_leaving();
  const std::shared_ptr<RendezvousStream> stream = stream_;
  lock.unlock();
  stream->Send(message);
  lock.lock();
}

absl::StatusOr<Membership> RendezvousClient::JoinNext(std::unique_lock<std::mutex>& lock) {
  Duration retry = options_.first_retry;
  while (true) {
    // Wait for the callback, so that it cannot be mistaken for the next generation's end.
    while (telling_end_) changed_.wait(lock);
    if (phase_ != Phase::kReleased) phase_ = Phase::kJoining;
    if (auto answer = Answer()) return *std::move(answer);
    if (join_.last_generation() != membership_.generation) wait_.Begin();
    join_.set_last_generation(membership_.generation);
    LOCKSTEP_RETURN_IF_ERROR(SendJoin(lock));
    while (true) {
      if (auto answer = Answer()) return *std::move(answer);
      // A generation may start and end before this thread wakes up: then ask for the next.
      if (broken_ || phase_ == Phase::kIdle) break;
      LOCKSTEP_RETURN_IF_ERROR(WaitForChange(lock, SteadyTime::max()));
    }
    if (!broken_) continue;
    // At once if the leader goes away, but ever more slowly if it turns this process away.
    if (wait_.admitted()) retry = options_.first_retry;
    const SteadyTime again = clock_.SteadyNow() + retry;
    while (clock_.SteadyNow() < again) LOCKSTEP_RETURN_IF_ERROR(WaitForChange(lock, again));
    retry = std::min(retry * 3 / 2, options_.longest_retry);
  }
}

// Connects if necessary and sends the Join. With a token, first waits for the challenge that the
// proof needs. Returns OK if the stream breaks: the caller sees broken_.
absl::Status RendezvousClient::SendJoin(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const std::shared_ptr<RendezvousStream> stream = Connected();
  lock.lock();
  while (token_.present() && challenge_.nonce().empty() && !broken_) {
    LOCKSTEP_RETURN_IF_ERROR(WaitForChange(lock, SteadyTime::max()));
  }
  if (broken_) return absl::OkStatus();
  proto::ReplicaMessage message;
  join_.set_nonce(nonce_);
  *message.mutable_join() = join_;
  join_proof_ = token_.Prove(api::kProofOfJoin, challenge_.nonce(), join_.SerializeAsString());
  message.mutable_join()->set_proof(join_proof_);
  lock.unlock();
  stream->Send(message);
  lock.lock();
  return absl::OkStatus();
}

// Returns the current Join's result, or nullopt while it is undecided.
std::optional<absl::StatusOr<Membership>> RendezvousClient::Answer() {
  if (phase_ == Phase::kMember) return membership_;
  if (phase_ == Phase::kReleased) {
    return absl::AlreadyExistsError(fmt::format("training is done, says {}", address_));
  }
  if (!rejected_) return std::nullopt;
  const std::string reason =
      fmt::format("refused by the rendezvous at {}: {}", address_, rejected_->reason());
  if (rejected_->superseded()) return absl::AbortedError(reason);
  return absl::FailedPreconditionError(reason);
}

// Waits for a message, a broken stream or `until`, but at most kStopPoll. DeadlineExceeded: the
// timeout has expired. Cancelled: this pod was asked to stop.
absl::Status RendezvousClient::WaitForChange(std::unique_lock<std::mutex>& lock, SteadyTime until) {
  LOCKSTEP_RETURN_IF_ERROR(wait_.Check());
  if (StopRequested()) {
    return absl::CancelledError(fmt::format("asked to stop while in the rendezvous at {}: {}",
                                            address_, wait_.WaitingFor()));
  }
  if (!leader_proven_ && !broken_ && clock_.SteadyNow() >= prove_by_) {
    Distrust(challenge_.nonce().empty()
                 ? fmt::format("it has not answered within {:.3g} s",
                               std::chrono::duration<double>(options_.proof_patience).count())
                 : kUnproven);
  }
  wait_.LogNowAndThen();
  changed_.wait_for(lock, std::min<Duration>(until - clock_.SteadyNow(), kStopPoll));
  return absl::OkStatus();
}

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
    case proto::CoordinatorMessage::kLeaderProof:
    case proto::CoordinatorMessage::MESSAGE_NOT_SET:
      break;
  }
  changed_.notify_all();
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

void RendezvousClient::WithholdAddress() {
  const std::lock_guard lock(mutex_);
  join_.clear_address();
}

void RendezvousClient::OnGenerationEnd(EndCallback callback) {
  const std::lock_guard lock(mutex_);
  on_generation_end_ = std::move(callback);
}

absl::Status RendezvousClient::Finish() {
  const Duration patience = std::max(options_.timeout, options_.busy_within);
  const SteadyTime deadline = clock_.SteadyNow() + patience;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<RendezvousStream> stream = stream_;
  proto::ReplicaMessage message;
  message.mutable_finished()->set_generation(membership_.generation);
  lock.unlock();
  if (stream) stream->Send(message);
  lock.lock();
  while (phase_ == Phase::kMember && clock_.SteadyNow() < deadline) {
    if (StopRequested()) {
      return absl::CancelledError(fmt::format(
          "asked to stop while the other members of generation {} finish", membership_.generation));
    }
    changed_.wait_for(lock, std::min<Duration>(deadline - clock_.SteadyNow(), kStopPoll));
  }
  if (phase_ == Phase::kMember) {
    return absl::DeadlineExceededError(
        fmt::format("rendezvous at {}: the other members have not finished after {:.3g} s",
                    address_, std::chrono::duration<double>(patience).count()));
  }
  if (phase_ != Phase::kReleased) {
    return absl::AbortedError(fmt::format("generation {} ended before all had finished: {}",
                                          membership_.generation, ended_reason_));
  }
  lock.unlock();
  if (stream) stream->HangUp();
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Rendezvous> MakeRendezvousClient(const Identity& identity, const Clock& clock,
                                                 RendezvousClientOptions options) {
  LOCKSTEP_CHECK(options.stop_requested, "a rendezvous client without a stop flag");
  return std::make_unique<RendezvousClient>(identity, clock, std::move(options));
}

std::unique_ptr<Rendezvous> MakeRendezvousClient(const Identity& identity, const Clock& clock) {
  RendezvousClientOptions options;
  options.timeout = std::chrono::seconds(identity.training.rendezvous_timeout_seconds);
  options.successors_come = identity.operated;
  options.stop_requested = &StopSignalled;
  return MakeRendezvousClient(identity, clock, std::move(options));
}

}  // namespace lockstep::train
