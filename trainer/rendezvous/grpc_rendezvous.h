// The client's class, of which rendezvous_client.cc has what a replica calls, and
// leader_connection.cc what the leader sends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/proto/rendezvous.pb.h"
#include "api/v1/job_token.h"
#include "base/clock.h"
#include "trainer/rendezvous/generation_store.h"
#include "trainer/rendezvous/heartbeat.h"
#include "trainer/rendezvous/join_wait.h"
#include "trainer/rendezvous/rendezvous_client.h"
#include "trainer/rendezvous/rendezvous_stream.h"

namespace lockstep::train {

class RendezvousClient final : public Rendezvous {
 public:
  RendezvousClient(const Identity& identity, const Clock& clock, RendezvousClientOptions options);
  ~RendezvousClient() override;

  absl::StatusOr<Membership> Join(std::int64_t step, const std::string& fingerprint) override;
  void WithholdAddress() override;
  void OnGenerationEnd(EndCallback callback) override;
  bool LostMember() const override { return lost_member_; }
  KeyValueStore& store() override { return store_; }
  void Report(const api::Progress& progress) override { heartbeat_->Report(progress); }
  void SetActivity(api::Activity activity) override { heartbeat_->SetActivity(activity); }
  void SetStepPart(api::StepPart part) override { heartbeat_->SetStepPart(part); }
  bool StopRequested() const override { return options_.stop_requested(); }
  std::optional<int> NewWorkers() const override {
    const int workers = new_workers_;
    return workers > 0 ? std::optional(workers) : std::nullopt;
  }
  void SetKeepsWorkers(bool keeps) override {
    keeps_workers_ = keeps;
    heartbeat_->SetKeepsWorkers(keeps);
  }
  void StateIsSaved() override { heartbeat_->SetIsSaved(true); }
  absl::Status Finish() override;

 private:
  enum class Phase { kIdle, kJoining, kMember, kReleased };
  static constexpr char kUnproven[] =
      "it does not prove that it knows the job's token, as a leader of this version does";

  std::shared_ptr<RendezvousStream> Connected();
  void Disconnect();
  void AwaitDelivery();
  void Received(int connection, const proto::CoordinatorMessage& message);
  bool MayBelieve(const proto::CoordinatorMessage& message);
  bool MustLeaveJoin() const;
  void Resized(const proto::Resized& resized);
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
  const int workers_;                        // that this process knows of
  const std::optional<int> own_worker_;      // its index, if it is one
  std::atomic<int> new_workers_ = 0;         // see NewWorkers; 0: none
  std::atomic<bool> keeps_workers_ = false;  // see SetKeepsWorkers

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
  bool is_coming_ = false;  // the group does not have new_workers_ yet
  Membership membership_;
  std::string ended_reason_;
  std::atomic<bool> lost_member_ = false;
  std::optional<proto::Rejected> rejected_;
  JoinWait wait_;
  EndCallback on_generation_end_ = [](std::uint64_t, const std::string&) {};
  bool telling_end_ = false;  // on_generation_end_ is running

  GenerationStore store_;
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace lockstep::train
