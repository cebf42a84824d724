// All that a cluster knows of one TrainingJob: the job, its pods, events and the log of a replica
// that has failed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

struct ReplicaLog {
  std::string replica;    // "worker-1"
  std::string container;  // whose log it is
  bool is_init = false;   // it is an init container
  std::string text;       // its last lines; ends with a line feed unless empty
  std::string error;      // why there are none; empty if there are
};

struct JobFacts {
  api::TrainingJob job;
  std::string invalid;               // why the operator cannot run the job; empty if it can
  std::vector<kube::Object> pods;    // of the job, in any order, of any attempt
  std::string pods_error;            // why there are none; empty if they were read
  std::vector<kube::Object> events;  // v1, of the job and its pods, in any order
  std::string events_error;          // why there are none; empty if they were read
  std::optional<ReplicaLog> log;     // of a replica that has failed
};

// Reads the job and its pods. NotFound: there is no such job. Other errors are those of the client.
absl::StatusOr<JobFacts> ReadJobFacts(kube::Client& client, const kube::Key& job);

// As ReadJobFacts. But without the right to list pods, the rest is there, and `pods_error`.
absl::StatusOr<JobFacts> ReadFactsAsAllowed(kube::Client& client, const kube::Key& job);

// Sets the events of the job and its pods, or why they cannot be read.
void ReadEvents(kube::Client& client, JobFacts& facts);

// Reads the last lines of a pod's container; `previous`: those from before its last restart.
using LogReader = std::function<absl::StatusOr<std::string>(
    const kube::Key& pod, const std::string& container, bool previous)>;

// Sets the log of the replica to blame for the job's trouble, if there is one.
void ReadLogToBlame(const LogReader& read_log, JobFacts& facts);

}  // namespace lockstep::cli
