#include "trainer/train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "trainer/models/models.h"

namespace lockstep::train {

void SetHash(StepTail& tail, std::uint64_t hash) {
  for (int limb = 0; limb < StepTail::kHashLimbs; ++limb) {
    tail.hash_limbs[limb] = static_cast<float>((hash >> (8 * limb)) & 0xff);
  }
}

std::uint64_t HashOf(const StepTail& tail) {
  std::uint64_t hash = 0;
  for (int limb = 0; limb < StepTail::kHashLimbs; ++limb) {
    hash += static_cast<std::uint64_t>(tail.hash_limbs[limb]) << (8 * limb);
  }
  return hash;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session);
  session->training_ = options.training;
  LOCKSTEP_RETURN_IF_ERROR(session->OpenData());
  const api::TrainingSpec& training = session->training_;
  StepPlan& plan = session->plan_;
  plan.examples = session->train_data_->size();
  plan.world = options.world;
  plan.global_batch = training.batch_size.global
                          ? *training.batch_size.global
                          : training.batch_size.per_replica.value_or(0) * options.world;
  if (plan.global_batch < options.world) {
    return absl::InvalidArgumentError(
        fmt::format("spec.training.batchSize: found a global batch of {} for {} replicas, expected "
                    "at least one sample a replica",
                    plan.global_batch, options.world));
  }
  session->total_steps_ =
      training.steps ? *training.steps : training.epochs.value_or(0) * plan.StepsPerEpoch();
  LOCKSTEP_RETURN_IF_ERROR(session->BuildModel(options));
  return session;
}

absl::Status Session::OpenData() {
  const auto seed = static_cast<std::uint64_t>(training_.seed);
  LOCKSTEP_ASSIGN_OR_RETURN(train_data_, OpenDataset(training_.dataset, Split::kTrain, seed));
  if (!training_.evaluation.enabled) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(test_data_, OpenDataset(training_.dataset, Split::kTest, seed));
  if (test_data_->classes() > train_data_->classes()) {
    return absl::DataLossError(fmt::format(
        "{}: test samples have {} classes, expected at most {}, those of the training samples",
        training_.dataset.path, test_data_->classes(), train_data_->classes()));
  }
  if (test_data_->sample_shape() == train_data_->sample_shape() &&
      test_data_->element() == train_data_->element()) {
    return absl::OkStatus();
  }
  const auto described = [](const Dataset& dataset) {
    return fmt::format("{} {}", DTypeName(dataset.element()), dataset.sample_shape().ToString());
  };
  return absl::DataLossError(
      fmt::format("{}: test samples are {}, expected {} as the training samples",
                  training_.dataset.path, described(*test_data_), described(*train_data_)));
}

absl::Status Session::BuildModel(const SessionOptions& options) {
  auto layers = training_.model.layers->get<std::vector<api::Json>>();
  if (layers.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(layers, BundledModel(training_.model.name, train_data_->classes()));
  }
  backend_ = MakeBackend({.name = options.backend, .threads = options.threads});
  const std::int64_t rows = plan_.LocalBatch();
  const std::int64_t most_parts = std::min<std::int64_t>(training_.gradient_accumulation, rows);
  const std::int64_t part_rows = (rows + most_parts - 1) / most_parts;
  parts_ = static_cast<int>((rows + part_rows - 1) / part_rows);  // none of them is empty
  const ModelOptions model_options{.batch = part_rows,
                                   .input = train_data_->sample_shape(),
                                   .classes = train_data_->classes(),
                                   .seed = static_cast<std::uint64_t>(training_.seed)};
  LOCKSTEP_ASSIGN_OR_RETURN(model_, Model::Build(layers, model_options, *backend_));
  LOCKSTEP_ASSIGN_OR_RETURN(
      buffer_, GradientBuffer::Create(model_->gradients().size() + model_->states().size() +
                                      sizeof(StepTail) / sizeof(float)));
  model_->BindGradients(buffer_->data());
  LOCKSTEP_ASSIGN_OR_RETURN(optimizer_, Optimizer::Create(training_.optimizer, *model_, *backend_));

  labels_.resize(static_cast<std::size_t>(model_options.batch));
  weights_.resize(labels_.size());
  saved_states_.resize(model_->states().size());
  if (parts_ > 1) accumulated_.resize(model_->gradients().size());
  LossOp::Memory memory{.logits = model_->logits(),
                        .dlogits = model_->logits_gradient(),
                        .labels = labels_.data(),
                        .weights = weights_.data()};
  training_loss_ = backend_->MakeSoftmaxCrossEntropy(model_options.batch, model_options.classes);
  training_loss_->Bind(memory);
  memory.dlogits = nullptr;
  evaluation_loss_ = backend_->MakeSoftmaxCrossEntropy(model_options.batch, model_options.classes);
  evaluation_loss_->Bind(memory);
  return absl::OkStatus();
}

Session::Part Session::Load(const Batch& batch, int part) {
  constexpr float kByteToUnit = 1.0f / 255.0f;
  const std::int64_t most = std::ssize(labels_), first = part * most;
  const std::int64_t rows = std::min<std::int64_t>(std::ssize(batch.labels) - first, most);
  const std::int64_t elements = train_data_->sample_shape().elements();
  if (train_data_->element() == DType::kFloat32) {
    std::copy_n(batch.features.begin() + first * elements, rows * elements, model_->input());
  } else {
    backend_->ConvertInput(batch.pixels.data() + first * elements, model_->input(), rows * elements,
                           kByteToUnit);
  }
  std::copy_n(batch.labels.begin() + first, rows, labels_.begin());
  std::copy_n(batch.weights.begin() + first, rows, weights_.begin());
  std::fill(weights_.begin() + rows, weights_.end(), 0.0f);
  return {.valid = std::clamp<std::int64_t>(batch.valid - first, 0, rows),
          .first_position = batch.first_position + first};
}

std::vector<std::int64_t> Session::LayerStarts() {
  std::vector<std::int64_t> starts;
  for (const TensorSlot& slot : model_->parameter_slots()) starts.push_back(slot.offset);
  return starts;
}

}  // namespace lockstep::train
