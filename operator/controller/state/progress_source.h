// Where reconciles learn how training goes. operator/progress asks trainers over gRPC.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// A job whose leading pod serves TrainerStatus.
struct ProgressTarget {
  std::string job_uid;
  std::string host;  // the leading pod's IP
  int port = 0;
  bool operator==(const ProgressTarget&) const = default;
};

// What a job's leading pod says of the others.
struct GroupReport {
  std::vector<std::string> missing;  // "worker-1": had joined, and no longer answers its peers
  std::vector<std::string> awaited;  // "worker-1": whoever the next generation still lacks
  // The leading pod has answered at its present address, and now does not.
  bool leader_is_silent = false;
  bool operator==(const GroupReport&) const = default;
};

// Thread-safe. No call blocks.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  // What the leading pod said last; nothing before its first answer. A source may start to ask at
  // the first call for a job, and must notice a new host (the leading pod was replaced).
  virtual std::optional<api::Progress> Latest(const ProgressTarget& target) = 0;
  // The job has no leading pod to ask: its address may be another's by now. Stops asking until the
  // next Latest(), and returns what was said last; nothing of a job that was not asked for.
  virtual std::optional<api::Progress> Pause(const std::string& job_uid) = 0;
  // As of the last question; empty of a job that is not asked for.
  virtual GroupReport Group(const std::string& job_uid) = 0;
  // The job is over or gone: stop asking.
  virtual void Forget(const std::string& job_uid) = 0;
};

// For those who do not poll.
class NoProgress final : public ProgressSource {
 public:
  std::optional<api::Progress> Latest(const ProgressTarget&) override { return std::nullopt; }
  std::optional<api::Progress> Pause(const std::string&) override { return std::nullopt; }
  GroupReport Group(const std::string&) override { return {}; }
  void Forget(const std::string&) override {}
};

}  // namespace lockstep::controller
