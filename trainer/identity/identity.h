// The identity of this process: reads and checks what the operator put into the environment.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/job_token.h"
#include "api/v1/strategy_traits.h"
#include "api/v1/training_job.h"

namespace lockstep::train {

// Joins an IP address of either family and a port: "10.0.0.1:8080", "[fd00::5]:8080".
std::string HostPort(const std::string& ip, const std::string& port);

// The content of TF_CONFIG. ParseTfConfig reads it like TensorFlow's TFConfigClusterResolver, but
// strictly.
struct ClusterSpec {
  std::vector<std::string> chief, worker, ps, evaluator;  // host:port
  api::Role task_role = api::Role::kWorker;
  int task_index = 0;
};

// Accepts lists and sparse maps such as {"2": "host:port"} (an index that the map omits becomes an
// empty string), an index as a string, and IPv6 addresses in brackets. InvalidArgument names the
// field. Reasons: malformed JSON, no cluster, an unknown role, more than one chief, a task out of
// range, duplicate addresses, an address without a port from 1 to 65535.
absl::StatusOr<ClusterSpec> ParseTfConfig(const std::string& text);

// Variables that the supervisor sets for the trainer processes that it starts, in addition to the
// pod's environment.
inline constexpr char kEnvLocalRank[] = "LOCKSTEP_LOCAL_RANK";
// The address of the rendezvous, if this pod serves it: the pod's processes then need no DNS
// lookup.
inline constexpr char kEnvRendezvousAddress[] = "LOCKSTEP_RENDEZVOUS_ADDRESS";

// The number of workers of the group, if it differs from TF_CONFIG's. A process sets it before it
// restarts itself because the group was resized.
inline constexpr char kEnvWorkers[] = "LOCKSTEP_WORKERS";

// When the pod's supervisor started, in Unix nanoseconds, and how many processes it has started for
// this local rank: see Incarnation.
inline constexpr char kEnvPodStarted[] = "LOCKSTEP_POD_STARTED";
inline constexpr char kEnvProcessNumber[] = "LOCKSTEP_PROCESS_NUMBER";

// Orders the processes that have had the same place in a job; the later one wins. Pods are compared
// first, because a pod that counts as lost may survive behind a network partition and keep
// restarting its processes. A pod's processes are numbered, because its clock may be set back.
struct Incarnation {
  std::int64_t pod_started = 0;     // Unix nanoseconds
  std::int64_t process_number = 0;  // from 1; 0: not started by a supervisor
  auto operator<=>(const Incarnation&) const = default;
};

// The version of what the trainers of a job say to each other: the messages of the rendezvous and
// of parameter servers, the rendezvous' store with the meaning of its values, the state that
// ranks broadcast, and the order and sizes of their collectives. Increment it with every change
// that an older trainer would not understand. Trainers of different versions then refuse each other
// by name, instead of starting generations that fail or misreading messages.
inline constexpr int kProtocol = 12;

struct Identity {
  std::string job, job_uid, namespace_name;
  api::Role role = api::Role::kWorker;
  int index = 0;  // within the role
  int attempt = 0;
  int processes_per_pod = 1;
  int local_rank = 0;  // within the pod
  int gpus = 0;        // of the pod; 0: its processes compute on the CPU
  Incarnation incarnation;
  // True if an operator (or `lockstep run`) created this pod and replaces pods that are lost.
  bool operated = false;
  api::JobToken token;             // absent unless LOCKSTEP_TOKEN_FILE names one
  int grace_seconds = 30;          // from the pod's SIGTERM to its SIGKILL
  std::string pod_ip;              // empty: bind all addresses
  std::string rendezvous_address;  // kEnvRendezvousAddress; empty: LeaderAddress()
  ClusterSpec cluster;
  api::TrainingSpec training;
  api::StrategySpec strategy;

  // The traits of `strategy`.
  api::StrategyTraits Traits() const;
  int Pods() const;                   // pods that train: chief and workers
  int PodRank() const;                // chief first, then workers; -1: it does not train
  api::Role LeaderRole() const;       // of the leading replica: Chief, else Worker; its index is 0
  std::string LeaderAddress() const;  // its host:port
  std::string LeaderHost() const;
  int Processes() const;  // that this pod runs
  // The number of parts that make up each step's batch: the processes of the group, without backup
  // workers, or its pipelines; 1 if each process has batches of its own (asynchronous parameter
  // servers, or it trains alone).
  int BatchParts() const;
  // The number of processes in the group. A process that trains alone is a group of one, without a
  // leader.
  int World() const;
  bool IsLeader() const;  // this pod serves the group's rendezvous
  // The rank, in the job, of this pod's process `local`; -1: this pod does not train.
  int RankOf(int local) const;
  // The model is cut into so many stages, each held by a process of its own; 1: it is whole.
  // Neighbouring ranks form a pipeline, so that the processes of a pod are together: with 2 stages,
  // ranks 2 and 3 are stages 0 and 1 of pipeline 1. World() is a multiple of Stages().
  int Stages() const;
  int StageOf(int rank) const;
  // Equal for processes that may train together. Covers the protocol version, job uid, attempt,
  // number of pods per role, processes per pod, stages, sharding, and `training` without its
  // paths, which may differ between pods. Readable, except for the digest of `training`, to show
  // differences.
  std::string ClusterHash() const;
  // Returns true if the group can get another number of workers while it trains: its processes
  // then leave with a checkpoint and start again.
  bool IsResizable() const;
  // Returns the same process in a group of `workers`. Requires: IsResizable. A worker that the
  // cluster spec lacks gets the address that the operator gives to the worker with that index,
  // derived from worker 0's address; or an empty one if worker 0's address does not have the
  // operator's form. Nobody connects to these addresses, but they may be resolved.
  Identity WithWorkers(int workers) const;
  std::uint64_t TrainingDigest() const;  // of `training` without its paths
};

using GetEnv = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> ProcessEnv(const std::string& name);

// Reads the identity from the environment. Without TF_CONFIG the cluster is one worker at
// 127.0.0.1, any port; it is an error if LOCKSTEP_ROLE or LOCKSTEP_INDEX is set then.
// InvalidArgument names the variable or the token's file.
absl::StatusOr<Identity> ReadIdentity(const GetEnv& env);

}  // namespace lockstep::train
