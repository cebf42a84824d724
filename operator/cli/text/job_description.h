// Formats all that is known of one job, the cause of its trouble first. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

struct ReplicaLog {
  std::string replica;  // "worker-1"
  std::string text;     // its last lines; ends with a line feed unless empty
  std::string error;    // why there are none; empty if there are
};

struct JobFacts {
  api::TrainingJob job;
  std::string invalid;               // why the operator cannot run the job; empty if it can
  std::vector<kube::Object> pods;    // of the job, in any order, of any attempt
  std::vector<kube::Object> events;  // events.k8s.io/v1, of the job and its pods, in any order
  std::string events_error;          // why there are none; empty if they were read
  std::optional<ReplicaLog> log;     // of a replica that has failed
};

// Returns the state, what the job waits for or has failed by, its settings, a line for each
// replica, the newest events and the log. Untrusted text is made safe for terminals.
std::string DescribeJob(const JobFacts& facts, Time now);

// Returns the same for programs, with every replica and event.
nlohmann::ordered_json JobDocument(const JobFacts& facts);

}  // namespace lockstep::cli
