#include "trainer/train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/backend/settle.h"
#include "trainer/models/models.h"
#include "trainer/optim/state_shares.h"
#include "trainer/train/compute_device.h"
#include "trainer/train/loss_kind.h"

namespace lockstep::train {
namespace {

// Says which activations between layers are computed again.
Recomputation RecomputationOf(api::ActivationCheckpointing checkpointing) {
  switch (checkpointing) {
    case api::ActivationCheckpointing::kNone:
      return Recomputation::kNone;
    case api::ActivationCheckpointing::kSelective:
      return Recomputation::kSelective;
    case api::ActivationCheckpointing::kFull:
      return Recomputation::kFull;
  }
  return Recomputation::kNone;
}

DType TypeOf(api::Precision precision) {
  switch (precision) {
    case api::Precision::kBFloat16:
      return DType::kBFloat16;
    case api::Precision::kFloat16:
      return DType::kFloat16;
    case api::Precision::kFloat32:
    case api::Precision::kTF32:
      break;
  }
  return DType::kFloat32;
}

void WarnIfEmulated(DType type, const Backend& backend) {
  if (backend.Computes(type)) return;
  LogWarning(fmt::format("this device computes {} in float32, between casts, so that training is "
                         "slower than with spec.training.precision Float32",
                         DTypeName(type)),
             {{"device", backend.Device()}});
}

}  // namespace

std::int64_t TotalSteps(const api::TrainingSpec& training, const StepPlan& plan) {
  if (training.steps) return *training.steps;
  std::int64_t steps = 0;
  // Some ask for epochs without end.
  if (__builtin_mul_overflow(training.epochs.value_or(0), plan.StepsPerEpoch(), &steps)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return steps;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionOptions& options) {
  LOCKSTEP_CHECK(!options.only_evaluates, "session: no run is given to evaluate");
  SessionParts parts;
  LOCKSTEP_ASSIGN_OR_RETURN(parts.data, OpenData(options));
  LOCKSTEP_ASSIGN_OR_RETURN(
      parts.backend,
      OpenDevice({.name = options.backend,
                  .threads = options.threads,
                  .rounds_to_tf32 = options.training.precision == api::Precision::kTF32,
                  .device = options.device,
                  .devices = options.devices},
                 options.falls_back_to_cpu));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Assemble(options, std::move(parts)));
  LOCKSTEP_RETURN_IF_ERROR(session->DigestData());
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Assemble(const SessionOptions& options,
                                                           SessionParts parts) {
  std::unique_ptr<Session> session(new Session);
  session->training_ = options.training;
  session->data_seed_ = options.data_seed.value_or(options.training.seed);
  session->update_site_ = options.update_site;
  session->rank_ = options.rank;
  session->only_evaluates_ = options.only_evaluates;
  session->stage_ = options.stage;
  session->train_data_ = std::move(parts.data.train);
  session->test_data_ = std::move(parts.data.test);
  session->backend_ = std::move(parts.backend);
  session->recorder_ = std::make_unique<StepRecorder>(*session->backend_, options.records_steps);
  const api::TrainingSpec& training = session->training_;
  session->reading_threads_ =
      training.dataset.threads > 0 ? training.dataset.threads : options.threads;
  session->readers_ =
      std::make_unique<ThreadPool>(static_cast<std::size_t>(session->reading_threads_ - 1));
  session->input_scaling_ = ScalingOf(training.dataset, session->samples().sample_shape());
  LOCKSTEP_RETURN_IF_ERROR(session->PlanSteps(parts, options.world));
  LOCKSTEP_RETURN_IF_ERROR(session->BuildModel(parts));
  return session;
}

absl::Status Session::PlanSteps(const SessionParts& parts, int world) {
  const api::BatchSizeSpec& batch = training_.batch_size;
  if (only_evaluates_) {
    LOCKSTEP_CHECK(parts.run && test_data_ != nullptr, "session: nothing is given to evaluate");
    LOCKSTEP_RETURN_IF_ERROR(
        CheckTestData(*parts.run, training_.loss.type, training_.dataset.path, *test_data_));
  }
  plan_.examples = only_evaluates_ ? parts.run->examples : train_data_->size();
  plan_.world = world;
  plan_.global_batch = batch.global ? *batch.global : batch.per_replica.value_or(0) * world;
  if (plan_.global_batch < world) {
    return absl::InvalidArgumentError(
        fmt::format("spec.training.batchSize: found a global batch of {} for {} replicas, expected "
                    "at least one sample a replica",
                    plan_.global_batch, world));
  }
  if (!only_evaluates_) DealSamples();
  total_steps_ = TotalSteps(training_, plan_);
  return absl::OkStatus();
}

absl::Status Session::BuildModel(const SessionParts& parts) {
  if (only_evaluates_) {
    outputs_ = parts.run->outputs;
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(outputs_, CountOutputs(training_.loss.type, *train_data_));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckTopK(training_.evaluation, outputs_));
  auto layers = training_.model.layers->get<std::vector<api::Json>>();
  if (layers.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        layers, BundledModel(training_.model.name, outputs_, training_.model.zero_gamma));
  }
  const std::int64_t rows = plan_.LocalBatch();
  const std::int64_t most_parts = std::min<std::int64_t>(training_.gradient_accumulation, rows);
  const std::int64_t part_rows = (rows + most_parts - 1) / most_parts;
  parts_ = static_cast<int>((rows + part_rows - 1) / part_rows);  // none of them is empty
  const bool is_central =
      update_site_ == UpdateSite::kThisRank || update_site_ == UpdateSite::kRankZero;
  if (is_central && backend_->IsHost()) {
    root_memory_ = std::make_unique<RootMemory>(update_site_ == UpdateSite::kThisRank);
  }
  const ModelOptions model_options{
      .batch = part_rows,
      .input = samples().sample_shape(),
      .classes = outputs_,
      .seed = static_cast<std::uint64_t>(training_.seed),
      .outputs = OutputsOf(training_.loss),
      .type = TypeOf(training_.precision),
      .parameter_memory = root_memory_.get(),
      // A rank that takes those of rank 0 would only use memory.
      .initializes = parts.initializes_model && update_site_ != UpdateSite::kRankZero,
      .trains = !only_evaluates_,
      .recomputation = RecomputationOf(training_.activation_checkpointing),
      .stage = stage_};
  WarnIfEmulated(model_options.type, *backend_);
  LOCKSTEP_ASSIGN_OR_RETURN(model_, Model::Build(layers, model_options, *backend_));
  if (!only_evaluates_) LOCKSTEP_RETURN_IF_ERROR(BuildTwins(layers, model_options));
  model_description_ = {.layers = std::move(layers),
                        .input = model_options.input,
                        .element = samples().element(),
                        .outputs = outputs_};
  if (!only_evaluates_) LOCKSTEP_RETURN_IF_ERROR(AllocateSums(parts));
  LOCKSTEP_RETURN_IF_ERROR(MakeOptimizer(parts.initializes_model));
  labels_.resize(static_cast<std::size_t>(model_options.batch));
  weights_.resize(labels_.size());
  if (ReadsTargets(training_.loss.type) || mixes()) {
    targets_.resize(labels_.size() * static_cast<std::size_t>(outputs_));
  }
  AllocateBlock();
  if (stage_.is_last()) MakeLosses();
  OpenGate();
  return absl::OkStatus();
}

absl::Status Session::MakeOptimizer(bool initializes_model) {
  const bool is_idle = only_evaluates_ || update_site_ == UpdateSite::kRankZero;
  std::optional<FlatRange> share;
  if (shares_updates()) {
    update_shares_ = PlanStateShares(model_->parameter_slots(), std::ssize(model_->parameters()),
                                     plan_.world, api::NeedsWholeTensors(training_.optimizer));
    share = update_shares_.at(static_cast<std::size_t>(rank_));
  } else if (update_site_ != UpdateSite::kEveryRank) {
    update_shares_ = {{0, std::ssize(model_->parameters())}};
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      optimizer_, Optimizer::Create(training_.optimizer, *model_, *backend_,
                                    is_idle ? OptimizerRole::kIdle : OptimizerRole::kUpdates,
                                    training_.ema, share));
  // The ranks' products must round alike, or their parameters drift apart, unless one rank updates
  // each for all. The ranks of different stages have different parameters, so that they cannot
  // compare.
  const bool has_peers = plan_.world > 1 && stage_.count == 1 && initializes_model &&
                         update_site_ == UpdateSite::kEveryRank;
  if (api::MultipliesMatrices(training_.optimizer) && has_peers && !is_idle) {
    update_digest_ = optimizer_->ProbeUpdate();
  }
  return absl::OkStatus();
}

absl::Status Session::BuildTwins(const std::vector<nlohmann::json>& layers, ModelOptions options) {
  options.shares_with = model_.get();
  for (int i = 1; i < std::min(parts_, stage_.count - stage_.index); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Model> twin,
                              Model::Build(layers, options, *backend_));
    twins_.push_back(std::move(twin));
  }
  return absl::OkStatus();
}

absl::Status Session::AllocateSums(const SessionParts& parts) {
  const std::size_t floats =
      model_->gradients().size() + model_->states().size() + sizeof(StepTail) / sizeof(float);
  // A device's sums pass through the host only if nothing better connects the ranks.
  LOCKSTEP_ASSIGN_OR_RETURN(buffer_, parts.make_buffer(floats, /*reserves=*/backend_->IsHost()));
  sums_ = buffer_->data();
  if (!backend_->IsHost()) {
    device_sums_.Reserve(floats * sizeof(float));
    device_sums_.Allocate(backend_->memory());
    sums_ = device_sums_.At<float>(0);
    transfer_ = backend_->MakeStream();
  }
  model_->BindGradients(sums_);
  for (const auto& twin : twins_) twin->BindGradients(sums_);
  return absl::OkStatus();
}

void Session::AllocateBlock() {
  const std::size_t states = only_evaluates_ ? 0 : model_->states().size_bytes();
  const std::size_t gradients = parts_ > 1 ? model_->gradients().size_bytes() : 0;
  const std::size_t input = block_.Reserve(sizeof(StepInput));
  const std::size_t gate = block_.Reserve(sizeof(UpdateGate));
  const std::size_t is_summed = block_.Reserve(sizeof(bool));
  const std::size_t result = block_.Reserve(sizeof(StepResult));
  const std::size_t evaluation = block_.Reserve(sizeof(LossTotals));
  const std::size_t labels = block_.Reserve(labels_.size() * sizeof(std::int32_t));
  const std::size_t targets = block_.Reserve(targets_.size() * sizeof(float));
  const std::size_t weights = block_.Reserve(weights_.size() * sizeof(float));
  const std::size_t saved = block_.Reserve(states), kept = block_.Reserve(gradients);
  const std::size_t norm = block_.Reserve(sizeof(NormMemory));
  block_.Allocate(backend_->memory());
  device_ = {
      .input = block_.At<StepInput>(input),
      .gate = block_.At<UpdateGate>(gate),
      .is_summed = block_.At<bool>(is_summed),
      .result = block_.At<StepResult>(result),
      .evaluation = block_.At<LossTotals>(evaluation),
      .labels = ReadsTargets(training_.loss.type) ? nullptr : block_.At<std::int32_t>(labels),
      .targets = targets_.empty() ? nullptr : block_.At<float>(targets),
      .weights = block_.At<float>(weights),
      .saved_states = block_.At<float>(saved),
      .kept_gradients = parts_ > 1 ? block_.At<float>(kept) : nullptr,
      .norm = block_.At<NormMemory>(norm)};
}

std::unique_ptr<LossOp> Session::MakeLoss(double label_smoothing) {
  const std::int64_t rows = std::ssize(labels_);
  const std::optional<ElementwiseLoss> elementwise = ElementwiseLossOf(training_.loss.type);
  if (!elementwise) {
    return backend_->MakeSoftmaxCrossEntropy(
        {.rows = rows, .classes = outputs_, .label_smoothing = label_smoothing});
  }
  return backend_->MakeElementwiseLoss({.loss = *elementwise,
                                        .rows = rows,
                                        .outputs = outputs_,
                                        .delta = training_.loss.delta,
                                        .label_smoothing = label_smoothing});
}

void Session::MakeLosses() {
  LossOp::Memory memory{.logits = model_->logits(),
                        .labels = device_.labels,
                        .targets = device_.labels == nullptr ? device_.targets : nullptr,
                        .weights = device_.weights,
                        .totals = device_.evaluation};
  // Without smoothing, so that test losses compare whatever the training's was.
  evaluation_loss_ = MakeLoss(0);
  evaluation_loss_->Bind(memory);
  if (only_evaluates_) return;
  memory.dlogits = model_->logits_gradient();
  memory.scale = &device_.input->loss_scale;
  memory.totals = &device_.input->totals;
  if (mixes()) {
    memory.labels = nullptr;
    memory.targets = device_.targets;
  }
  training_loss_ = MakeLoss(training_.label_smoothing);
  training_loss_->Bind(memory);
}

// The memory must outlive the work that is queued on it.
Session::~Session() {
  if (backend_ != nullptr) Settle(*backend_);
}

std::optional<DeviceSums> Session::device_sums() {
  if (backend_->IsHost()) return std::nullopt;
  return DeviceSums{.memory = sums_,
                    .is_summed = device_.is_summed,
                    .compute = &backend_->stream(),
                    .transfer = transfer_.get()};
}

SessionMemory Session::Memory() const {
  std::size_t links = 0;
  const StageTraffic traffic = stage_traffic();
  for (const StageMessages& messages :
       {traffic.from_previous, traffic.to_previous, traffic.to_next, traffic.from_next}) {
    links += messages.bytes * static_cast<std::size_t>(messages.slots);
  }
  ModelMemory model = model_->Memory();
  for (const auto& twin : twins_) {
    model.activations += twin->Memory().activations;
    model.scratch += twin->Memory().scratch;
  }
  return {.model = model,
          .sums = (buffer_ ? buffer_->size() : 0) * sizeof(float) + device_sums_.bytes(),
          .slots = optimizer_->MemoryBytes(),
          .step = block_.bytes(),
          .links = links};
}

absl::StatusOr<std::size_t> Session::OptimizerBytesOf(const FlatRange& share) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::size_t scratch,
                            ScratchBytesOfShare(training_.optimizer, *model_, *backend_, share));
  return static_cast<std::size_t>(share.size() * optimizer_->slots()) * sizeof(float) + scratch;
}

std::vector<std::int64_t> Session::LayerStarts() {
  std::vector<std::int64_t> starts;
  for (const TensorSlot& slot : model_->parameter_slots()) starts.push_back(slot.offset);
  return starts;
}

}  // namespace lockstep::train
