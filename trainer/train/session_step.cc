// The parts of a step of a session.
#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "trainer/train/loss_kind.h"
#include "trainer/train/session.h"

namespace lockstep::train {

void Session::OpenGate(UpdateGate gate) {
  backend_->Synchronize();
  begun_count_ = 0;
  peer_waits_.clear();
  sum_failure_ = absl::OkStatus();
  if (!only_evaluates_ && !backend_->IsHost()) {
    // A sum that failed has left anything there, also between the parameters, where no op writes.
    backend_->Zero(sums_, device_sums_.bytes());
  }
  if (!adapts_loss_scale()) gate.loss_scale = {};
  backend_->Upload(&gate, device_.gate, sizeof(gate));
  const bool is_summed = true;
  backend_->Upload(&is_summed, device_.is_summed, sizeof(is_summed));
}

void Session::BeginStep(const UpdateSettings& settings, float loss_scale, const StepTail& own) {
  settings_ = settings;
  const StepInput input{.loss_scale = loss_scale, .settings = settings, .totals = {}};
  backend_->Upload(&input, device_.input, sizeof(input));
  if (adapts_loss_scale()) {
    backend_->Multiply(device_.input->loss_scale, device_.gate->loss_scale.value);
  }
  backend_->Upload(&own, tail(), sizeof(own));
  backend_->Copy(model_->states().data(), device_.saved_states, model_->states().size_bytes());
  if (parts_ > 1) backend_->Zero(device_.kept_gradients, model_->gradients().size_bytes());
}

// Divides the rows evenly: a last part of one sample would let batch normalization end an epoch
// with the statistics of that sample.
Slice Session::RowsOfPart(const Batch& batch, int part) const {
  const std::int64_t most = std::ssize(labels_), used = (batch.valid + most - 1) / most;
  if (part >= used) return {batch.valid, batch.valid};
  return {batch.valid * part / used, batch.valid * (part + 1) / used};
}

void Session::Load(const Batch& batch, int part) {
  LoadSamples(batch, part, *model_);
  FillLabels(batch, part);
  UploadLabels();
}

// The part's rows may be followed by rows of the next part, which serve as padding. After the last
// row of the batch, zeros are written: the memory may hold values of the previous pass, and one
// that is not finite would make gradients NaN, although these rows have no weight.
StepContext Session::LoadSamples(const Batch& batch, int part, Model& model) {
  const auto [first, end] = RowsOfPart(batch, part);
  const std::int64_t rows =
      std::min<std::int64_t>(std::ssize(batch.labels) - first, std::ssize(labels_));
  const StepContext step{
      .valid = end - first,
      .step = static_cast<std::uint64_t>(batch.step),
      .first_position = static_cast<std::uint64_t>(batch.first_position + first)};
  model.SetStep(step);
  const std::int64_t elements = samples().sample_shape().elements();
  if (samples().element() == DType::kFloat32) {
    backend_->Upload(batch.features.data() + first * elements, model.input(),
                     static_cast<std::size_t>(rows * elements) * sizeof(float));
  } else {
    backend_->ConvertInput(batch.pixels.data() + first * elements, model.input(), rows * elements,
                           input_scaling_);
  }
  const std::int64_t padding = std::ssize(labels_) - rows;
  if (padding > 0) {
    backend_->Zero(model.input() + rows * elements,
                   static_cast<std::size_t>(padding * elements) * sizeof(float));
  }
  return step;
}

void Session::FillLabels(const Batch& batch, int part) {
  const auto [first, end] = RowsOfPart(batch, part);
  const std::int64_t rows =
      std::min<std::int64_t>(std::ssize(batch.labels) - first, std::ssize(labels_));
  std::copy_n(batch.weights.begin() + first, end - first, weights_.begin());
  std::fill(weights_.begin() + (end - first), weights_.end(), 0.0f);
  if (!ReadsTargets(training_.loss.type)) {
    std::copy_n(batch.labels.begin() + first, rows, labels_.begin());
  } else if (!batch.targets.empty()) {
    std::copy_n(batch.targets.begin() + first * outputs_, rows * outputs_, targets_.begin());
    return;
  } else {  // the classes 0 and 1 of a binary loss
    std::transform(batch.labels.begin() + first, batch.labels.begin() + first + rows,
                   targets_.begin(), [](std::int32_t label) { return static_cast<float>(label); });
  }
  if (!batch.shares.empty()) MixLabels(batch, first, rows);
}

// A label has the share of its row's own class, and the rest is the partner's.
void Session::MixLabels(const Batch& batch, std::int64_t first, std::int64_t rows) {
  const bool is_binary = ReadsTargets(training_.loss.type);
  if (!is_binary) std::ranges::fill(targets_, 0.0f);
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto row = static_cast<std::size_t>(first + i);
    const float share = batch.shares[row];
    const auto own = static_cast<std::int64_t>(batch.labels[row]);
    const auto partner = static_cast<std::int64_t>(batch.partners[row]);
    if (is_binary) {
      targets_[static_cast<std::size_t>(i)] =
          share * static_cast<float>(own) + (1 - share) * static_cast<float>(partner);
    } else {
      targets_[static_cast<std::size_t>(i * outputs_ + own)] += share;
      targets_[static_cast<std::size_t>(i * outputs_ + partner)] += 1 - share;
    }
  }
}

void Session::UploadLabels() {
  if (device_.labels != nullptr) {
    backend_->Upload(labels_.data(), device_.labels, labels_.size() * sizeof(std::int32_t));
  }
  if (!targets_.empty()) {
    backend_->Upload(targets_.data(), device_.targets, targets_.size() * sizeof(float));
  }
  backend_->Upload(weights_.data(), device_.weights, weights_.size() * sizeof(float));
}

void Session::KeepGradients() {
  backend_->Accumulate(sums_, device_.kept_gradients, std::ssize(model_->gradients()));
}

void Session::AddKeptGradients(std::int64_t offset, std::int64_t floats) {
  backend_->Accumulate(device_.kept_gradients + offset, sums_ + offset, floats);
}

// Running statistics become their mean over ranks, so that all ranks stay bitwise equal.
void Session::OfferStatesAndTotals() {
  backend_->Scale(model_->states().data(), summed_states(), std::ssize(model_->states()),
                  1.0f / static_cast<float>(plan_.world));
  backend_->WriteTail(device_.input->totals, *tail());
}

UpdateMemory Session::MemoryOfUpdate() {
  return {.settings = &device_.input->settings,
          .is_summed = device_.is_summed,
          .gradients = sums_,
          .size = std::ssize(model_->gradients()),
          .tail = tail(),
          .gate = device_.gate,
          .update = optimizer_->step(),
          .result = device_.result,
          .states = model_->states().data(),
          .summed_states = summed_states(),
          .saved_states = device_.saved_states,
          .states_size = std::ssize(model_->states())};
}

void Session::MarkPeerWait(const std::function<void()>& queue) {
  if (backend_->IsHost() || plan_.world == 1) return queue();
  PeerWait wait{.begins = backend_->stream().Record(), .ends = nullptr};
  queue();
  wait.ends = backend_->stream().Record();
  peer_waits_.push_back(std::move(wait));
}

const std::vector<Session::PeerWait>& Session::peer_waits() const {
  LOCKSTEP_CHECK(begun_count_ > 0, "session: no step lacks a result");
  return begun_[static_cast<std::size_t>(first_begun_)].waits;
}

void Session::Update(absl::Status summed) {
  LOCKSTEP_CHECK(begun_count_ < kMostStepsBegun, "session: {} steps lack a result", begun_count_);
  if (!summed.ok()) {
    const bool is_summed = false;
    backend_->Upload(&is_summed, device_.is_summed, sizeof(is_summed));
    sum_failure_.Update(std::move(summed));  // keeps the first
  }
  recorder_->Queue(StepPiece::kUpdate, [this] {
    backend_->DecideUpdate(MemoryOfUpdate());
    if (update_site_ != UpdateSite::kRankZero) optimizer_->Step();
  });
  BegunStep& step =
      begun_[static_cast<std::size_t>((first_begun_ + begun_count_++) % kMostStepsBegun)];
  backend_->stream().Download(device_.result, &step.result, sizeof(step.result));
  step.done = backend_->IsHost() ? nullptr : backend_->stream().Record();
  step.waits = std::exchange(peer_waits_, {});
}

void Session::OfferParameters() {
  const FlatRange& own = optimizer_->share();
  backend_->Copy(model_->parameters().data() + own.begin, sums_ + own.begin,
                 static_cast<std::size_t>(own.size()) * sizeof(float));
}

// What this rank has updated stays as it is, even if what has arrived is not to be used.
void Session::TakeParameters() {
  const FlatRange all{0, std::ssize(model_->parameters())};
  const FlatRange own = shares_updates() ? optimizer_->share() : FlatRange{};
  for (const FlatRange& others : {FlatRange{0, own.begin}, FlatRange{own.end, all.end}}) {
    if (others.size() == 0) continue;
    backend_->Copy(sums_ + others.begin, model_->parameters().data() + others.begin,
                   static_cast<std::size_t>(others.size()) * sizeof(float));
  }
}

StepResult Session::EndStep() {
  LOCKSTEP_CHECK(begun_count_ > 0, "session: no step lacks a result");
  const BegunStep& step = begun_[static_cast<std::size_t>(first_begun_)];
  if (step.done != nullptr) step.done->Wait();
  first_begun_ = (first_begun_ + 1) % kMostStepsBegun;
  --begun_count_;
  return step.result;
}

LossTotals Session::OwnTotals() {
  LossTotals totals;
  backend_->Download(&device_.input->totals, &totals, sizeof(totals));
  return totals;
}

void Session::BeginEvaluation() {
  backend_->Zero(device_.evaluation, sizeof(LossTotals));
}

// The logits and predictions are float32, whatever the model computes in.
void Session::AddEvaluation(EvaluationMetrics& metrics) {
  evaluation_loss_->Run();
  if (metrics.empty()) return;
  evaluated_outputs_.resize(labels_.size() * static_cast<std::size_t>(outputs_));
  backend_->Download(model_->logits(), evaluated_outputs_.data(),
                     evaluated_outputs_.size() * sizeof(float));
  const bool reads_labels = device_.labels != nullptr;
  metrics.Add({.outputs = evaluated_outputs_,
               .labels = reads_labels ? std::span<const std::int32_t>(labels_)
                                      : std::span<const std::int32_t>(),
               .targets = reads_labels ? std::span<const float>() : targets_,
               .weights = weights_});
}

LossTotals Session::EndEvaluation() {
  LossTotals totals;
  backend_->Download(device_.evaluation, &totals, sizeof(totals));
  return totals;
}

}  // namespace lockstep::train
