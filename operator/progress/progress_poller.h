// Polls the leading pods of jobs for training progress, or their Evaluators while no leading pod
// runs, over gRPC, off the reconcile path.
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

#include "api/v1/job_token.h"
#include "base/clock.h"
#include "operator/controller/state/progress_source.h"
#include "operator/progress/pod_connections.h"
#include "operator/progress/status_answer.h"

namespace grpc {
class Status;
}
namespace lockstep::proto {
class GetStatusResponse;
}

namespace lockstep::progress {

struct PollerOptions {
  Duration interval = std::chrono::seconds(5);  // between two questions to one pod
  Duration deadline = std::chrono::seconds(2);  // for an answer
  // Maximum number of calls in flight: a tenant decides what answers. Namespaces share them fairly.
  std::size_t most_calls = 256;
  // Maximum number of connections kept between questions; each takes three descriptors.
  std::size_t most_links = 512;
  // A save by rank 0 that takes longer, on a volume that hangs, say, is waited for no more: see
  // GroupReport::saves. As long as its group waits for it.
  Duration longest_save = std::chrono::minutes(30);
  // Returns the token whose proof the leading pod of a job requires; unset: no job has one. Called
  // for each proof, so a token that is not known yet may be later. Called on any thread; must not
  // block.
  std::function<api::JobToken(const std::string& job_uid)> token_of;
};

// Logs nothing if a pod cannot be reached: an operator outside the cluster cannot reach pod
// addresses. Thread-safe.
class ProgressPoller final : public controller::ProgressSource {
 public:
  explicit ProgressPoller(PollerOptions options);
  ~ProgressPoller() override;  // cancels the calls in flight
  ProgressPoller(const ProgressPoller&) = delete;
  ProgressPoller& operator=(const ProgressPoller&) = delete;

  std::optional<api::Progress> Latest(const controller::ProgressTarget& target) override;
  std::optional<api::Progress> Pause(const std::string& job_uid) override;
  // since_evaluation is as of now. The leader is silent if it answered before and has left at least
  // two questions in a row without a report. An answer from another job's trainer, or from one that
  // refuses the proof of the job's token, is no report; nor is one without proof of the token, once
  // a leading pod of the job has proved an answer.
  controller::GroupReport Group(const std::string& job_uid) override;
  bool TellsWorkers() const override { return true; }
  // Asks at once if it is to say something else than before.
  void TellWorkers(const std::string& job_uid, int workers) override;
  void Forget(const std::string& job_uid) override;
  // Returns nullopt until the present leading pod has reported, after a question without a report,
  // and for jobs whose leading pod is not polled.
  std::optional<GroupState> State(const std::string& job_uid);

 private:
  struct Link;  // a connection to a pod, and gRPC's stub on it
  struct Peer;  // the pod that is polled for a job, and its latest report
  struct Call;  // a question in flight

  // What is known of a job, whichever of its pods has told it.
  struct Known {
    std::optional<api::Progress> latest;
    bool proves = false;                      // the attempt's pods prove their answers: one has
    std::optional<bool> resizes;              // see GroupReport
    int attempt = 0;                          // of the job, in which they did
    std::optional<SteadyTime> evaluated_at;   // when an Evaluator last told of new batches
    std::vector<controller::Straggler> hung;  // see GroupReport; told at hung_at
    SteadyTime hung_at;
  };

  void Loop(std::stop_token stop);
  SteadyTime AskDue();
  std::vector<std::shared_ptr<Peer>> FairOrder(std::vector<std::shared_ptr<Peer>> due) const;
  bool Reach(Peer& peer);
  void Ask(const std::shared_ptr<Peer>& peer);
  void OnAnswer(Call& call, const grpc::Status& status);
  static bool IsSilence(const Call& call, const grpc::Status& status);
  static bool MayBelieve(Call& call);
  static void TakeReport(const proto::GetStatusResponse& said, Peer& peer);
  void CloseRetired(std::unique_lock<std::mutex>& lock);

  const PollerOptions options_;
  PodConnections connections_;  // must outlive the channels
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, std::shared_ptr<Peer>> peers_;  // by job uid
  std::map<std::string, Known> paused_;                 // of jobs that are not polled, by uid
  std::map<Call*, std::unique_ptr<Call>> calls_;
  // Peers and links to be released; peers_ or a call may still hold them.
  std::vector<std::shared_ptr<void>> retired_;
  bool must_look_ = false;  // a peer may have become due
  std::jthread thread_;
};

}  // namespace lockstep::progress
