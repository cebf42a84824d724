// The memory that a replica will need, from the code that allocates it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/identity/identity.h"
#include "trainer/plan/plan_data.h"
#include "trainer/train/session.h"

namespace lockstep::train {

// What a process of the trainer gets resident only once it runs: code, connections, the stacks of
// threads. Measured, of models from mlp to resnet-50: 9 to 11 MiB.
inline constexpr std::size_t kBytesOnceRunning = std::size_t{10} << 20;

// Bytes of a replica, each in one member. Of one that computes on a GPU only those of the host:
// what lies in the GPU's memory is 0, and what its libraries take of the host's is not known.
struct ReplicaMemory {
  std::size_t process = 0;     // the program, its libraries, its ops' code, kBytesOnceRunning
  std::size_t data_sets = 0;   // samples that are kept
  std::size_t batches = 0;     // that loaders fill
  std::size_t parameters = 0;  // and running statistics
  std::size_t gradients = 0;   // and what else is summed over replicas
  std::size_t optimizer = 0;   // its slots
  std::size_t activations = 0;
  std::size_t scratch = 0;
  std::size_t staging = 0;  // of the largest parameter, on its way to or from the model
  std::size_t step = 0;     // labels, kept gradients, what a step decides by
  std::size_t servers = 0;  // values that parameter servers of the same host write
  // Copies that are being saved or exported, or one that is being read, whichever makes the total
  // larger.
  std::size_t checkpoint = 0;
  std::size_t total() const {
    return process + data_sets + batches + parameters + gradients + optimizer + activations +
           scratch + staging + step + servers + checkpoint;
  }
};

// What a replica's settings make of it.
struct ReplicaNumbers {
  ReplicaMemory memory;  // of the replica that saves checkpoints
  ReplicaMemory other;   // of one that does not; with Independent, every replica saves its own
  std::size_t model = 0, snapshot = 0;  // bytes of a checkpoint's tensors: the model's, and all
};

struct MeasuredReplica : ReplicaNumbers {
  std::unique_ptr<Session> session;  // whose memory is reserved but never used
};

// Builds the session of the replica that saves. `process` is what the process had before, to which
// its growth is added. InvalidArgument: as for Session::Create.
absl::StatusOr<MeasuredReplica> MeasureReplica(const SessionOptions& options,
                                               const PlannedData& data, const Identity& identity,
                                               std::size_t process);

// Builds the session of an Evaluator that reads the checkpoints of `trained`. `data`: see
// PlanTestData. ReplicaMemory::process is `process`. Errors: those of Session::Assemble.
absl::StatusOr<ReplicaMemory> MeasureEvaluator(const SessionOptions& options,
                                               const PlannedData& data,
                                               const ReplicaNumbers& trained, std::size_t process);

// How many copies of the model and the optimizer's state there are at a time while checkpoints are
// saved. With a larger batch there are never more, because a run then has fewer steps.
int CheckpointCopies(const api::TrainingSpec& training, const PlannedData& data,
                     const StepPlan& plan);

}  // namespace lockstep::train
