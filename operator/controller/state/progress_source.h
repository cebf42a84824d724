// Where reconciles get training progress. operator/progress polls trainers over gRPC.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// Which of a job's pods is asked for its TrainerStatus: the leading pod or, while no leading pod
// runs, the Evaluator's.
struct ProgressTarget {
  std::string job_uid;
  std::string host;  // the pod's IP
  int port = 0;
  std::string namespace_name = {};  // the job's; namespaces share the calls fairly
  bool is_evaluator = false;
  // The job's attempt. All pods of one attempt have the same token, or none, and the same trainer.
  int attempt = 0;
  bool operator==(const ProgressTarget&) const = default;
};

// A process that others wait for in a training step.
struct Straggler {
  std::string replica;  // "worker-1"
  int rank = 0;
  std::string doing;  // "waits for its next batch"
  bool operator==(const Straggler&) const = default;
};

// What a job's leading pod says about the other replicas, and the Evaluator about itself.
struct GroupReport {
  std::vector<std::string> missing = {};  // "worker-1": has joined, but no longer answers its peers
  std::vector<std::string> awaited = {};  // "worker-1": the next generation still lacks it
  // The leading pod has answered at its present address, but no longer does.
  bool leader_is_silent = false;
  // Whether the Evaluator has reported to the leading pod that it does not see that pod's
  // checkpoints; nullopt: the leading pod has not answered, or has heard nothing since it started.
  std::optional<bool> evaluator_misses_checkpoints = std::nullopt;
  // For a user's own program: how long its reports have not changed (ProgressReports). For the
  // bundled trainer: how long the leading replica had been in training steps without finishing one
  // when the leading pod last answered. nullopt: the leading pod has not answered lately, or the
  // replica is doing something else, such as waiting for others, evaluating or saving.
  std::optional<Duration> in_step_for = std::nullopt;
  // As the last answer has them, by rank. Empty if no process waits for another, or all do.
  std::vector<Straggler> stragglers = {};
  // Processes that others have waited for, without success, to form the next generation, as the
  // leading pod last reported within the past minute. That report is kept because the leading pod
  // ends together with the others.
  std::vector<Straggler> hung = {};
  // Time since an Evaluator's count of batches last grew; nullopt: no count was reported yet.
  std::optional<Duration> since_evaluation = std::nullopt;
  // How many workers the group has, by the last answer of the present leading pod; nullopt: it has
  // not answered yet, or has a group of a fixed size.
  std::optional<int> workers = std::nullopt;
  // Whether the trainer of this attempt can change its number of workers while it trains; nullopt:
  // no leading pod of the attempt has answered.
  std::optional<bool> resizes = std::nullopt;
  bool answers = false;  // the leading pod has answered the last question
  // By the last answer, rank 0 saves a checkpoint, and has not for too long: seconds, or minutes.
  bool saves = false;
  // By the last answer, the group keeps its number of workers until a checkpoint can be saved: it
  // may take days until somebody makes room for one.
  bool keeps_workers = false;
  bool AwaitsSave() const { return saves || keeps_workers; }
  bool operator==(const GroupReport&) const = default;
};

// Thread-safe. No call blocks.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  // Returns the leading pod's latest report, whichever pod is asked now; nullopt before its first
  // answer. An implementation may start polling at the first call for a job, and must notice a new
  // host (the pod was replaced).
  virtual std::optional<api::Progress> Latest(const ProgressTarget& target) = 0;
  // Stops polling until the next Latest(), because the job has no pod to ask: another pod may have
  // its address by now. Returns the latest report; nullopt for a job that is not polled.
  virtual std::optional<api::Progress> Pause(const std::string& job_uid) = 0;
  // Returns the group's state as of the latest poll. If the job is not polled, or its Evaluator is
  // polled, only hung, since_evaluation and resizes may be set.
  virtual GroupReport Group(const std::string& job_uid) = 0;
  // Returns true if TellWorkers does something.
  virtual bool TellsWorkers() const { return false; }
  // Until the polled pod changes, each poll of the leading pod also tells it how many workers its
  // group is to have; 0: no number. Does nothing if the job is not polled, or if its Evaluator is
  // polled.
  virtual void TellWorkers(const std::string& /*job_uid*/, int /*workers*/) {}
  // Stops polling: the job has ended or is gone.
  virtual void Forget(const std::string& job_uid) = 0;
};

// A source without progress, for programs that do not poll.
class NoProgress final : public ProgressSource {
 public:
  std::optional<api::Progress> Latest(const ProgressTarget&) override { return std::nullopt; }
  std::optional<api::Progress> Pause(const std::string&) override { return std::nullopt; }
  GroupReport Group(const std::string&) override { return {}; }
  void Forget(const std::string&) override {}
};

}  // namespace lockstep::controller
