#include "trainer/plan/replica_memory.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "trainer/backend/measuring_backend.h"
#include "trainer/data/gather.h"
#include "trainer/data/loader.h"
#include "trainer/export/model_file.h"
#include "trainer/plan/process_memory.h"
#include "trainer/strategy/make_strategy.h"
#include "trainer/train/compute_device.h"
#include "trainer/train/followed_run.h"
#include "trainer/train/loss_kind.h"
#include "trainer/train/parameter_client.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

// A gradient buffer that reserves address space but no memory.
class ReservedBuffer final : public GradientBuffer {
 public:
  explicit ReservedBuffer(std::size_t floats) : floats_(floats) {
    arena_.Reserve(floats * sizeof(float));
    arena_.Allocate(memory_);
  }
  float* data() override { return arena_.At<float>(0); }
  std::size_t size() const override { return floats_; }
  std::string name() const override { return "reserved"; }
  absl::Status Reserve() override { return absl::OkStatus(); }
  void WillBeShared() override {}
  absl::Status Renew() override { return absl::OkStatus(); }
  SharedSegment* segment() override { return nullptr; }

 private:
  ReservedMemory memory_;
  Arena arena_;
  const std::size_t floats_;
};

SessionParts PartsOf(const SessionOptions& options, const PlannedData& data) {
  static ReservedMemory memory;  // outlives the sessions
  return {
      .data = {.train = DatasetOf(data.train), .test = data.test ? DatasetOf(*data.test) : nullptr},
      .backend = MakeMeasuringBackend(
          MakeBackend({.name = options.backend, .threads = options.threads}), memory),
      .make_buffer = [](std::size_t floats,
                        bool) -> absl::StatusOr<std::unique_ptr<GradientBuffer>> {
        return std::make_unique<ReservedBuffer>(floats);
      },
      .initializes_model = false};
}

// The training's batches are kept during an evaluation, which has its own. A worker that uses
// parameter servers has one batch for training: see BatchGradient.
std::size_t BytesOfBatches(const Session& session, const Identity& identity) {
  const LoaderOptions reads = session.TrainingReads(/*rank=*/0);
  std::size_t bytes = identity.Traits().has_parameter_servers
                          ? BatchBytes(session.train_data(), session.plan(), Mixes(reads))
                          : Loader::BytesOfBatches(session.train_data(), reads);
  if (session.test_data() != nullptr) bytes += Loader::BytesOfBatches(*session.test_data(), reads);
  return bytes;
}

// See InitializeParameters: a parameter's values are made densely on the host.
std::size_t BytesOfStaging(Session& session) {
  std::size_t largest = 0;
  for (const TensorSlot& slot : session.model().parameter_slots()) {
    largest = std::max(largest, static_cast<std::size_t>(slot.desc.shape.elements()));
  }
  return largest * sizeof(float);
}

// By how many bytes the largest optimizer of any rank exceeds that of rank 0: shares of whole
// tensors are not equal.
absl::StatusOr<std::size_t> BytesBeyondRankZero(Session& session) {
  if (!session.shares_updates()) return 0;
  std::vector<std::size_t> of_shares;
  for (const FlatRange& share : session.update_shares()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::size_t bytes, session.OptimizerBytesOf(share));
    of_shares.push_back(bytes);
  }
  return *std::ranges::max_element(of_shares) - of_shares.front();
}

// The memory of a replica that saves no checkpoints, from that of the one that does. With
// CentralStorage, rank 0 initializes the parameters and has the optimizer's slots for all; the
// others read its parameters in place if they can.
absl::StatusOr<ReplicaMemory> OtherOf(ReplicaMemory memory, Session& session,
                                      const Identity& identity) {
  const SessionMemory bytes = session.Memory();
  if (!ComputesOnGpu(identity)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::size_t beyond, BytesBeyondRankZero(session));
    memory.optimizer += beyond;
  }
  if (!identity.Traits().trains_alone) memory.checkpoint = 0;
  // The leading process evaluates alone.
  if (identity.Traits().has_parameter_servers) memory.best = 0;
  if (!identity.Traits().first_process_updates) return memory;
  memory.optimizer = 0;
  memory.staging = 0;
  memory.best = 0;
  const bool reads_in_place = AllowsSharedMemory(identity) && !ComputesOnGpu(identity);
  if (reads_in_place) memory.parameters -= bytes.model.parameters;
  return memory;
}

// Keeps only what a replica that computes on a GPU has in the host's memory. The sums stay, because
// without NCCL they pass through the host.
void LeaveOnlyTheHosts(ReplicaMemory& memory, const SessionMemory& bytes) {
  memory.parameters = memory.optimizer = memory.activations = memory.scratch = 0;
  memory.gradients = bytes.sums;
  memory.step = bytes.links;
}

// What reading the checkpoint that a run resumes from needs beyond the memory of a step, which is
// free until the first step.
std::size_t BytesOfRestore(const ReplicaNumbers& numbers) {
  const ReplicaMemory& memory = numbers.memory;
  const std::size_t of_step =
      memory.batches + memory.activations + memory.scratch + memory.staging + memory.step;
  std::size_t read = BytesWhileRead(numbers.model_file, numbers.snapshot);
  // A checkpoint with a best model has the model to train on in a file of its own, which is read
  // last, while all other tensors are held. The best model stays, and is counted as `best`.
  if (memory.best > 0) read = std::max(read, numbers.snapshot + 2 * numbers.model) - memory.best;
  return read - std::min(read, of_step);
}

// What the export at the end needs, when no checkpoint is being saved any more: the tensors; and
// for an ONNX file its graph, which holds them, and the graph's bytes.
std::size_t BytesOfExport(const std::string& file, std::size_t model) {
  if (file.empty()) return 0;
  const auto format = ModelFormatOf(file);
  return format.ok() && *format == ModelFormat::kOnnx ? 3 * model : model;
}

// What saving up to `copies` checkpoints at a time, resuming and the export take at most.
// `numbers` has all else.
std::size_t BytesOfCheckpoint(const ReplicaNumbers& numbers, const Session& session,
                              const SessionMemory& bytes, int copies) {
  const std::size_t best = numbers.memory.best;
  const std::size_t saved = numbers.snapshot + (best > 0 ? numbers.model : 0);
  const std::size_t exported =
      BytesOfExport(session.training().checkpoint.export_to, numbers.model);
  std::size_t most = std::max({static_cast<std::size_t>(copies) * saved,
                               copies > 0 ? BytesOfRestore(numbers) : 0, exported});
  if (session.is_divided() && copies > 0) most += exported;  // see ModelToExport
  // A later stage hands copies of its own tensors to rank 0, which saves all.
  if (session.stage().is_first() || most == 0) return most;
  return bytes.model.parameters + bytes.model.states + (copies > 0 ? bytes.slots + best : 0);
}

}  // namespace

absl::StatusOr<MeasuredReplica> MeasureReplica(const SessionOptions& options,
                                               const PlannedData& data, const Identity& identity,
                                               std::size_t process) {
  const ProcessMemory before = ReadTrimmedMemory();
  MeasuredReplica measured;
  LOCKSTEP_ASSIGN_OR_RETURN(measured.session, Session::Assemble(options, PartsOf(options, data)));
  Session& session = *measured.session;
  const SessionMemory bytes = session.Memory();
  measured.memory = {.process = process + GrowthSince(before).resident,
                     .data_sets = data.bytes,
                     .batches = BytesOfBatches(session, identity),
                     .parameters = bytes.model.parameters + bytes.model.states,
                     .gradients = bytes.sums + bytes.model.gradients,
                     .optimizer = bytes.slots,
                     .activations = bytes.model.activations,
                     .scratch = bytes.model.scratch,
                     .staging = BytesOfStaging(session),
                     .step = bytes.step + bytes.links};
  if (ComputesOnGpu(identity)) LeaveOnlyTheHosts(measured.memory, bytes);
  measured.model = ModelBytes(session);
  measured.model_file = ModelFileBytes(session);
  measured.snapshot = SnapshotBytes(session);
  const auto& stopping = session.training().early_stopping;
  const bool keeps_best = stopping && stopping->restore_best;
  const bool is_whole = session.stage().count == 1;
  if (keeps_best) {
    measured.memory.best = is_whole ? measured.model : bytes.model.parameters + bytes.model.states;
  }
  int copies = CheckpointCopies(session.training(), data, session.plan());
  // A job of parameter servers saves each new best model at once, beside its other checkpoints.
  if (keeps_best && identity.Traits().has_parameter_servers) copies = 2;
  measured.memory.checkpoint = BytesOfCheckpoint(measured, session, bytes, copies);
  if (identity.Traits().has_parameter_servers) {
    measured.memory.servers =
        ShardGroup::SharedBytes(ShardOptions(ParameterClientOptionsFor(identity), session));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(measured.other, OtherOf(measured.memory, session, identity));
  return measured;
}

absl::StatusOr<ReplicaMemory> MeasureEvaluator(const SessionOptions& options,
                                               const PlannedData& data,
                                               const ReplicaNumbers& trained, std::size_t process) {
  SessionParts parts = PartsOf(options, data);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::int64_t outputs,
                            CountOutputs(options.training.loss.type, *parts.data.train));
  parts.run = FollowedRun{.examples = parts.data.train->size(),
                          .input = parts.data.train->sample_shape(),
                          .element = parts.data.train->element(),
                          .outputs = outputs};
  parts.data.train = nullptr;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto session, Session::Assemble(options, std::move(parts)));
  const SessionMemory bytes = session->Memory();
  const api::TrainingSpec& training = session->training();
  const bool keeps_best = training.checkpoint.keep_best.has_value();
  return ReplicaMemory{
      .process = process,
      .data_sets = data.bytes,
      .batches = Loader::BytesOfBatches(
          *session->test_data(), {.plan = session->plan(), .prefetch = training.dataset.prefetch}),
      .parameters = bytes.model.parameters + bytes.model.states,
      .optimizer = bytes.slots,
      .activations = bytes.model.activations,
      .scratch = bytes.model.scratch,
      .step = bytes.step,
      .checkpoint =
          BytesWhileRead(trained.model_file, keeps_best ? trained.snapshot : trained.model_file)};
}

// While one copy is being written, the next may be made.
int CheckpointCopies(const api::TrainingSpec& training, const PlannedData& data,
                     const StepPlan& plan) {
  if (training.checkpoint.directory.empty()) return 0;
  if (training.checkpoint.every_steps == 0) return 1;  // the last step's
  const bool is_length_known = training.steps || data.train.samples;
  return !is_length_known || training.checkpoint.every_steps < TotalSteps(training, plan) ? 2 : 1;
}

}  // namespace lockstep::train
