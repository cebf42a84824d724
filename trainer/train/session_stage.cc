// What a session has for one stage of a model: the messages between stages, and totals.
#include <algorithm>

#include "base/check.h"
#include "trainer/train/session.h"

namespace lockstep::train {
namespace {

// Writes or reads consecutive values of a message, of which there may be none.
template <typename T>
std::byte* Append(std::span<const T> values, std::byte* to) {
  return std::ranges::copy(std::as_bytes(values), to).out;
}
template <typename T>
const std::byte* Take(const std::byte* from, std::span<T> values) {
  std::copy_n(from, values.size_bytes(), std::as_writable_bytes(values).begin());
  return from + values.size_bytes();
}

}  // namespace

Model& Session::model_of(int part) {
  const int twin = part % parts_in_flight();
  return twin == 0 ? *model_ : *twins_[static_cast<std::size_t>(twin - 1)];
}

// Labels that no loss reads are 0.
std::size_t Session::part_bytes() const {
  return Aligned(sizeof(StepContext) + labels_.size() * sizeof(std::int32_t) +
                 targets_.size() * sizeof(float) + weights_.size() * sizeof(float));
}

StageTraffic Session::stage_traffic() const {
  StageTraffic traffic;
  if (only_evaluates_) return traffic;
  // `stage` is the earlier one of two stages.
  const auto in_flight = [this](int stage) { return std::min(parts_, stage_.count - stage); };
  if (!stage_.is_first()) {
    const std::size_t bytes = model_->InputBorder().bytes;
    const int slots = in_flight(stage_.index - 1);
    traffic.from_previous = {.bytes = part_bytes() + Aligned(bytes), .slots = slots};
    traffic.to_previous = {.bytes = Aligned(bytes), .slots = slots};
  }
  if (!stage_.is_last()) {
    const std::size_t bytes = model_->OutputBorder().bytes;
    const int slots = in_flight(stage_.index);
    traffic.to_next = {.bytes = part_bytes() + Aligned(bytes), .slots = slots};
    traffic.from_next = {.bytes = Aligned(bytes), .slots = slots};
  }
  return traffic;
}

void Session::LoadFirstStage(const Batch& batch, int part, std::span<std::byte> message) {
  const StepContext step = LoadSamples(batch, part, model_of(part));
  FillLabels(batch, part);
  std::byte* to = Append(std::span(&step, 1), message.data());
  to = Append(std::span<const std::int32_t>(labels_), to);
  to = Append(std::span<const float>(targets_), to);
  Append(std::span<const float>(weights_), to);
}

void Session::LoadLaterStage(int part, std::span<const std::byte> message) {
  StepContext step;
  const std::byte* from = Take(message.data(), std::span(&step, 1));
  model_of(part).SetStep(step);
  if (!stage_.is_last()) return;
  from = Take(from, std::span(labels_));
  from = Take(from, std::span(targets_));
  Take(from, std::span(weights_));
  UploadLabels();
}

// The back end's decision about an update computes the norm on all threads, or on the device.
double Session::OwnGradientNorm() {
  NormMemory* const memory = device_.norm;
  const NormMemory fresh;
  backend_->Upload(&fresh, memory, sizeof(fresh));
  backend_->DecideUpdate({.settings = &memory->settings,
                          .is_summed = device_.is_summed,
                          .gradients = sums_,
                          .size = std::ssize(model_->gradients()),
                          .tail = &memory->tail,
                          .gate = &memory->gate,
                          .update = &memory->update,
                          .result = &memory->result});
  StepResult result;
  backend_->Download(&memory->result, &result, sizeof(result));
  return result.gradient_norm;
}

StepTail Session::OwnTail() {
  StepTail own;
  backend_->Download(tail(), &own, sizeof(own));
  return own;
}

void Session::TakeTotals(const StepTail& tail, double squared_norm) {
  backend_->Upload(&tail, this->tail(), sizeof(tail));
  settings_.has_squared_norm = true;
  settings_.squared_norm = squared_norm;
  backend_->Upload(&settings_, &device_.input->settings, sizeof(settings_));
}

}  // namespace lockstep::train
