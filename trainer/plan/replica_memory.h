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

// The memory of a trainer process that becomes resident only once it runs: code, connections,
// thread stacks. Measured with models from mlp to resnet-50: 9 to 11 MiB.
inline constexpr std::size_t kBytesOnceRunning = std::size_t{10} << 20;

// Bytes of a replica, each in one member. If the replica computes on a GPU, only the host's memory
// counts: members that lie in the GPU's memory are 0, and what the GPU's libraries take on the host
// is not known and not included.
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
  std::size_t best = 0;     // the model of the best evaluation, if the run ends with it
  // Copies that are being saved or exported, or what a checkpoint that is being read needs beyond
  // the memory of a step, whichever is larger.
  std::size_t checkpoint = 0;
  std::size_t total() const {
    return process + data_sets + batches + parameters + gradients + optimizer + activations +
           scratch + staging + step + servers + best + checkpoint;
  }
};

// The memory that a replica needs, and the size of its checkpoints.
struct ReplicaNumbers {
  ReplicaMemory memory;  // of the replica that saves checkpoints
  // One that saves none. With Independent it equals `memory`: each replica saves its own.
  ReplicaMemory other;
  // Bytes of tensors: of the model, of a checkpoint's model.safetensors, and of a checkpoint
  // without those of the best evaluation.
  std::size_t model = 0, model_file = 0, snapshot = 0;
};

struct MeasuredReplica : ReplicaNumbers {
  std::unique_ptr<Session> session;  // whose memory is reserved but never used
};

// Builds the session of the replica that saves. `process`: the bytes of the process before; its
// growth during the call is added. InvalidArgument: as for Session::Create.
absl::StatusOr<MeasuredReplica> MeasureReplica(const SessionOptions& options,
                                               const PlannedData& data, const Identity& identity,
                                               std::size_t process);

// Builds the session of an Evaluator that reads the checkpoints of `trained`. `data`: see
// PlanTestData. ReplicaMemory::process is `process`. Errors: those of Session::Assemble.
absl::StatusOr<ReplicaMemory> MeasureEvaluator(const SessionOptions& options,
                                               const PlannedData& data,
                                               const ReplicaNumbers& trained, std::size_t process);

// Returns the largest number of copies of the model and the optimizer's state that exist at a time
// while checkpoints are saved. A larger batch never increases it, because a run then has no more
// steps than before.
int CheckpointCopies(const api::TrainingSpec& training, const PlannedData& data,
                     const StepPlan& plan);

}  // namespace lockstep::train
