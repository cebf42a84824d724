// Asks the leading pods of jobs how training goes, over gRPC, off the reconcile path.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/v1/activity.h"
#include "api/v1/job_token.h"
#include "base/clock.h"
#include "operator/controller/state/progress_source.h"
#include "operator/progress/pod_connections.h"

namespace grpc {
class Status;
}
namespace lockstep::proto {
class GetStatusResponse;
}

namespace lockstep::progress {

struct PollerOptions {
  Duration interval = std::chrono::seconds(5);  // between two questions to one pod
  Duration deadline = std::chrono::seconds(2);  // of an answer
  // Questions under way at a time: what answers is whatever a tenant runs.
  std::size_t most_calls = 256;
  // Connections that are kept between two questions; each takes three descriptors.
  std::size_t most_links = 512;
  // What the leading pod of a job asks to be proven; unset: no job has one. Asked for each proof,
  // so that one that is not known at first may be later; on any thread, and must not block.
  std::function<api::JobToken(const std::string& job_uid)> token_of;
};

// What a leading pod said last of its group, for people to read.
struct GroupState {
  // Replicas that the rendezvous waits for, "worker 1", the first 256 of them.
  std::vector<std::string> missing;
  api::Activity activity = api::Activity::kUnknown;  // of rank 0
};

// Quiet when a pod cannot be reached: an operator outside the cluster sees no pod addresses.
class ProgressPoller final : public controller::ProgressSource {
 public:
  explicit ProgressPoller(PollerOptions options);
  ~ProgressPoller() override;  // cancels what is under way
  ProgressPoller(const ProgressPoller&) = delete;
  ProgressPoller& operator=(const ProgressPoller&) = delete;

  std::optional<api::Progress> Latest(const controller::ProgressTarget& target) override;
  std::optional<api::Progress> Pause(const std::string& job_uid) override;
  // Silent is a leader that has left two questions in a row without a report. Answers of another
  // job's trainer, and of one that refuses the proof of the job's token, are none.
  controller::GroupReport Group(const std::string& job_uid) override;
  void Forget(const std::string& job_uid) override;
  // Nothing before the first answer of the present leading pod, and nothing of a job that is not
  // asked for. Thread-safe, as all methods.
  std::optional<GroupState> State(const std::string& job_uid);

 private:
  struct Link;  // a connection to a leading pod, and gRPC's stub on it
  struct Peer;  // a leading pod and what it said
  struct Call;  // one question under way

  void Loop(std::stop_token stop);
  SteadyTime AskDue();
  bool Reach(Peer& peer);
  void Ask(const std::shared_ptr<Peer>& peer);
  void OnAnswer(Call& call, const grpc::Status& status);
  static bool IsReport(const proto::GetStatusResponse& said,
                       const controller::ProgressTarget& target);
  static bool IsSilence(const Call& call, const grpc::Status& status);
  void CloseRetired(std::unique_lock<std::mutex>& lock);

  const PollerOptions options_;
  PodConnections connections_;  // outlives the channels
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, std::shared_ptr<Peer>> peers_;  // by job uid
  std::map<std::string, api::Progress> paused_;         // what was said last, by uid of other jobs
  std::map<Call*, std::unique_ptr<Call>> calls_;
  // Peers and links to be closed, unless peers_ or a call has them as well.
  std::vector<std::shared_ptr<void>> retired_;
  bool must_look_ = false;  // somebody may be asked who could not be before
  std::jthread thread_;
};

}  // namespace lockstep::progress
