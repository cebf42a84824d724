// Asks the leading pods of jobs how training goes, over gRPC, off the reconcile path.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "api/base/clock.h"
#include "operator/controller/progress_source.h"

namespace grpc {
class Status;
}

namespace lockstep::progress {

struct PollerOptions {
  Duration interval = std::chrono::seconds(5);  // between two questions to one pod
  Duration deadline = std::chrono::seconds(2);  // of an answer
  // Questions under way at a time: what answers is whatever a tenant runs.
  std::size_t most_calls = 256;
};

// Quiet when a pod cannot be reached: an operator outside the cluster sees no pod addresses.
class ProgressPoller final : public controller::ProgressSource {
 public:
  explicit ProgressPoller(PollerOptions options);
  ~ProgressPoller() override;  // cancels what is under way
  ProgressPoller(const ProgressPoller&) = delete;
  ProgressPoller& operator=(const ProgressPoller&) = delete;

  std::optional<api::Progress> Latest(const controller::ProgressTarget& target) override;
  // Silent is a leader that has left two questions in a row without an answer.
  controller::GroupReport Group(const std::string& job_uid) override;
  void Forget(const std::string& job_uid) override;

 private:
  struct Peer;  // a leading pod, its channel and what it said
  struct Call;  // one question under way

  void Loop(std::stop_token stop);
  SteadyTime AskDue();
  void Ask(const std::shared_ptr<Peer>& peer);
  void OnAnswer(Call& call, const grpc::Status& status);

  const PollerOptions options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, std::shared_ptr<Peer>> peers_;  // by job uid
  std::map<Call*, std::unique_ptr<Call>> calls_;
  bool must_look_ = false;  // somebody may be asked who could not be before
  std::jthread thread_;
};

}  // namespace lockstep::progress
