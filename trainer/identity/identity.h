// Who this process is: what the operator put into the environment, checked.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/job_token.h"
#include "api/v1/training_job.h"

namespace lockstep::train {

// "10.0.0.1:8080", "[fd00::5]:8080": an IP address of either family, with a port.
std::string HostPort(const std::string& ip, const std::string& port);

// TF_CONFIG as TensorFlow's TFConfigClusterResolver reads it. Strict: see ParseTfConfig.
struct ClusterSpec {
  std::vector<std::string> chief, worker, ps, evaluator;  // host:port
  api::Role task_role = api::Role::kWorker;
  int task_index = 0;
};

// InvalidArgument names the field: malformed JSON, no cluster, unknown role, a task out of range,
// two equal addresses, an address without a port. Accepts lists and sparse maps {"2": "host:port"}
// (a place that a map leaves out is an empty string), an index as a string, IPv6 in brackets.
absl::StatusOr<ClusterSpec> ParseTfConfig(const std::string& text);

// What the supervisor tells its replicas, beside the pod's own environment.
inline constexpr char kEnvLocalRank[] = "LOCKSTEP_LOCAL_RANK";
// Where the rendezvous listens, if the pod itself hosts it: saves its replicas the DNS.
inline constexpr char kEnvRendezvousAddress[] = "LOCKSTEP_RENDEZVOUS_ADDRESS";

// When its supervisor set this pod off, in Unix nanoseconds, and how many times it has started a
// process for this local rank: see Incarnation.
inline constexpr char kEnvPodStarted[] = "LOCKSTEP_POD_STARTED";
inline constexpr char kEnvProcessNumber[] = "LOCKSTEP_PROCESS_NUMBER";

// Which of the processes that have had the same place in a job this is. The later one wins, by its
// pod first: a pod that was given up for lost may live on behind a partition, and start its
// replicas again and again. Processes of a pod are counted, because a clock may be set back.
struct Incarnation {
  std::int64_t pod_started = 0;     // Unix nanoseconds
  std::int64_t process_number = 0;  // from 1; 0: not started by a supervisor
  auto operator<=>(const Incarnation&) const = default;
};

struct Identity {
  std::string job, job_uid, namespace_name;
  api::Role role = api::Role::kWorker;
  int index = 0;  // within the role
  int attempt = 0;
  int processes_per_pod = 1;
  int local_rank = 0;  // within the pod
  Incarnation incarnation;
  // An operator (or `lockstep run`) made this pod, and makes another in the place of one that is
  // lost.
  bool operated = false;
  api::JobToken token;             // absent unless LOCKSTEP_TOKEN_FILE names one
  int grace_seconds = 30;          // from the pod's SIGTERM to its SIGKILL
  std::string pod_ip;              // empty: bind all addresses
  std::string rendezvous_address;  // kEnvRendezvousAddress; empty: LeaderAddress()
  ClusterSpec cluster;
  api::TrainingSpec training;
  api::StrategySpec strategy;

  int Pods() const;                   // that take part in collectives: chief and workers
  int World() const;                  // Pods() * processes_per_pod
  int PodRank() const;                // chief first, then workers; -1: takes no part
  int RankOf(int local) const;        // of a replica of this pod, in every membership; -1 likewise
  std::string LeaderAddress() const;  // host:port of the chief, else of worker 0
  bool IsLeader() const;
  // Equal for processes that may train together: job uid, attempt, roles and counts, `training`
  // but for its folders, which every pod may have elsewhere.
  // Readable up to the digest of `training`, so that two that differ show where.
  std::string ClusterHash() const;
};

using GetEnv = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> ProcessEnv(const std::string& name);

// InvalidArgument names the variable. The incarnation's process is left to the caller, who has a
// clock. Without TF_CONFIG: an error if LOCKSTEP_ROLE or
// LOCKSTEP_INDEX says that this is one replica of several, else a world of one pod at 127.0.0.1,
// any port.
absl::StatusOr<Identity> ReadIdentity(const GetEnv& env);

}  // namespace lockstep::train
