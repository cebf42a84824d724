#include "trainer/rendezvous/rendezvous_client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/stop_signal.h"
#include "trainer/rendezvous/gate/dialled_host.h"
#include "trainer/rendezvous/gate/grpc_options.h"
#include "trainer/rendezvous/grpc_rendezvous.h"

namespace lockstep::train {
namespace {

// Waits poll the stop flag at this period: a signal handler cannot notify a condition variable.
constexpr auto kStopPoll = std::chrono::milliseconds(50);

// How long a process that ends waits for a leader that may hang or be out of reach.
constexpr auto kTellsWithin = std::chrono::seconds(2);

}  // namespace

RendezvousClient::RendezvousClient(const Identity& identity, const Clock& clock,
                                   RendezvousClientOptions options)
    : address_(identity.rendezvous_address.empty() ? identity.LeaderAddress()
                                                   : identity.rendezvous_address),
      token_(identity.token),
      clock_(clock),
      options_(std::move(options)),
      workers_(static_cast<int>(identity.cluster.worker.size())),
      own_worker_(identity.role == api::Role::kWorker ? std::optional(identity.index)
                                                      : std::nullopt),
      wait_(address_, options_, clock),
      store_(identity.token, [this] {
        const std::lock_guard lock(mutex_);
        if (phase_ != Phase::kMember || broken_) return GenerationStore::Target{};
        return GenerationStore::Target{stream_, membership_.generation, challenge_};
      }) {
  StartGrpc();
  join_.set_cluster_hash(identity.ClusterHash());
  join_.set_workers(workers_);
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
  // The last numbers of a run that fails are less than a second old.
  const bool has_told = heartbeat_->TellProgress() || heartbeat_->is_saved();
  heartbeat_.reset();  // before the stream that it uses
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::kIdle;  // no callback for an end that this destructor causes
  }
  if (has_told) AwaitDelivery();
  Disconnect();
}

// Waits until the leader has all messages. It would drop what it has not read of a stream that is
// cancelled: then, after a save for another number of workers, it would keep its group as it was.
void RendezvousClient::AwaitDelivery() {
  std::unique_lock lock(mutex_);
  if (!stream_ || broken_) return;
  stream_->HangUp();
  changed_.wait_for(lock, kTellsWithin, [this] { return broken_; });
}

absl::StatusOr<Membership> RendezvousClient::Join(std::int64_t step,
                                                  const std::string& fingerprint) {
  // What it did in the last generation says nothing about the next: until it reports again, it
  // forms that generation.
  heartbeat_->SetActivity(api::Activity::kUnknown);
  heartbeat_->SetIsSaved(false);
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
  if (token_.present()) join_.set_dialled(HostOfPeer(stream->peer()));
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
  if (options_.stop_requested()) {
    return absl::CancelledError(fmt::format("asked to stop while in the rendezvous at {}: {}",
                                            address_, wait_.WaitingFor()));
  }
  if (MustLeaveJoin()) {
    return absl::CancelledError("the group has another number of workers");
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

// The others wait until rank 0 has saved: if it cannot, the group starts again with all of them.
bool RendezvousClient::MustLeaveJoin() const {
  if (new_workers_ == 0 || keeps_workers_) return false;
  const bool is_leader = membership_.generation > 0 && membership_.rank == 0;
  return !is_coming_ || (is_leader && join_.step() > 0);
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
  heartbeat_->TellProgress();
  if (stream) stream->Send(message);
  lock.lock();
  while (phase_ == Phase::kMember && clock_.SteadyNow() < deadline) {
    if (options_.stop_requested()) {  // the group's size no longer matters
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
