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
#include "trainer/plan/plan_messages.h"
#include "trainer/plan/pod_memory.h"

namespace lockstep::train {

struct PlanOptions {
  Identity identity;  // of the leading pod
  int threads = 1;    // that compute in a replica
  GivenData given;
  // Pods of a role without a limit share `available`, the memory of this machine, as under
  // `lockstep run`; with one they are those of a cluster.
  PodLimits pod_limits;
  std::uint64_t available = 0;
  int evaluators = 0;           // pods; TF_CONFIG does not name them, and their GPUs are not known
  std::string backend = "cpu";  // that the plan itself uses, also for pods with GPUs
};

struct PlannedSteps {
  StepPlan plan;
  int parts = 1;                                // of a replica's batch, one after the other
  std::optional<std::int64_t> epoch, total;     // steps; absent: the number of samples is not known
  std::optional<std::int64_t> padded, dropped;  // rows and samples in an epoch, of all replicas
};

// The largest batch with which the job fits; 0: it never does.
struct LargestBatch {
  std::int64_t per_replica = 0, global = 0;
};

// One of the stages that a model is cut into.
struct PlannedStage {
  std::vector<OpReport> ops;
  std::size_t bytes = 0;  // that a process of the first pipeline needs
  std::size_t sent = 0;   // bytes to the next stage for each micro-batch
};

struct JobPlan {
  Identity identity;
  std::optional<int> variant;  // that the plan describes; of an Independent job
  api::TrainingSpec training;  // of the replica: a variant's differs from the job's
  std::string device;          // "cpu:avx2"; "cuda" for pods with GPUs
  int threads = 1;
  PlannedData data;
  std::vector<OpReport> ops;         // of all stages
  std::vector<PlannedStage> stages;  // empty: the model is whole
  PlannedSteps steps;
  PlannedMessages messages;
  std::size_t checkpoint = 0;  // bytes of its tensors
  int measured = 0;            // sessions that were built to plan the job
  PlannedMemory memory;
  std::uint64_t available = 0;
  // Only if the job does not fit: why, and what would.
  std::string refusal;
  std::optional<LargestBatch> largest;
};

// Plans the job; of an Independent one, describes the variant that needs the most memory.
// Errors: those of PlanData and of Session::Create.
absl::StatusOr<JobPlan> PlanJob(const PlanOptions& options);

}  // namespace lockstep::train
