// What a job would do and need, without training: its layers, steps, messages and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/sampler.h"
#include "trainer/identity/identity.h"
#include "trainer/nn/model.h"
#include "trainer/plan/plan_data.h"
#include "trainer/plan/replica_memory.h"

namespace lockstep::train {

struct PlanOptions {
  Identity identity;  // of the leading pod
  int threads = 1;    // that compute in a replica
  GivenData given;
  // The most bytes that a pod may use: its memory limit. Absent: it has none, and all pods share
  // `available`, the memory of this machine.
  std::optional<std::uint64_t> pod_limit;
  std::uint64_t available = 0;
  std::string backend = "cpu";
};

struct PlannedSteps {
  StepPlan plan;
  int parts = 1;                                // of a replica's batch, one after the other
  std::optional<std::int64_t> epoch, total;     // steps; absent: the number of samples is not known
  std::optional<std::int64_t> padded, dropped;  // rows and samples in an epoch, of all replicas
};

struct PlannedServer {
  std::size_t moved = 0;  // bytes that each step pulls from it, and pushes to it
  std::size_t held = 0;   // bytes of its values and its optimizer's slots
};

// One of the lists is empty; with a single replica, both are.
struct PlannedMessages {
  std::vector<std::size_t> buckets;  // bytes of each all-reduce, in the order of a step
  std::size_t sent = 0;              // bytes that a replica sends in a step, by a ring
  std::vector<PlannedServer> servers;
};

struct PlannedMemory {
  ReplicaMemory replica;  // the one that saves checkpoints
  std::size_t pod = 0;    // its pod, with the supervisor
  std::size_t job = 0;    // all pods that train
};

// The largest batch with which the job fits; 0: it never does.
struct LargestBatch {
  std::int64_t per_replica = 0, global = 0;
};

struct JobPlan {
  Identity identity;
  api::TrainingSpec training;  // of the replica: a variant's differs from the job's
  std::string device;          // "cpu:avx2"
  int threads = 1;
  PlannedData data;
  std::vector<OpReport> ops;
  PlannedSteps steps;
  PlannedMessages messages;
  std::size_t checkpoint = 0;  // bytes of its tensors
  PlannedMemory memory;
  std::optional<std::uint64_t> pod_limit;
  std::uint64_t available = 0;
  // Only if the job does not fit: why, and what would.
  std::string refusal;
  std::optional<LargestBatch> largest;
};

// Errors: those of PlanData and of Session::Create.
absl::StatusOr<JobPlan> PlanJob(const PlanOptions& options);

}  // namespace lockstep::train
