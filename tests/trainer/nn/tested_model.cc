#include "tests/trainer/nn/tested_model.h"

#include <algorithm>

#include "base/check.h"
#include "trainer/core/rng.h"

namespace lockstep::train {

Batch RandomBatch(std::int64_t rows, const Shape& input, std::int64_t classes,
                  std::uint64_t stream) {
  const std::uint64_t key = DeriveKey(7, stream);
  Batch batch{.x = std::vector<float>(static_cast<std::size_t>(rows * input.elements())),
              .labels = std::vector<std::int32_t>(static_cast<std::size_t>(rows)),
              .weights = std::vector<float>(static_cast<std::size_t>(rows), 1.0f)};
  for (std::size_t i = 0; i < batch.x.size(); ++i) {
    batch.x[i] = 2 * UniformFloat(Philox(key, i, 0)[0]) - 1;
  }
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    batch.labels[i] =
        static_cast<std::int32_t>(Philox(key, i, 1)[0] % static_cast<std::uint64_t>(classes));
  }
  return batch;
}

Batch Slice(const Batch& batch, std::int64_t begin, std::int64_t rows, std::int64_t size,
            float padding) {
  const std::int64_t row = static_cast<std::int64_t>(batch.x.size()) / batch.rows();
  Batch slice;
  slice.x.assign(batch.x.begin() + begin * row, batch.x.begin() + (begin + rows) * row);
  slice.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + begin + rows);
  slice.weights.assign(batch.weights.begin() + begin, batch.weights.begin() + begin + rows);
  slice.x.resize(static_cast<std::size_t>(size * row), padding);
  slice.labels.resize(static_cast<std::size_t>(size), 0);
  slice.weights.resize(static_cast<std::size_t>(size), 0.0f);
  return slice;
}

TestedModel::TestedModel(const std::vector<nlohmann::json>& layers, const ModelOptions& options,
                         const std::string& backend)
    : options_(options), backend_(MakeBackend({.name = backend})) {
  auto model = Model::Build(layers, options, *backend_);
  LOCKSTEP_CHECK(model.ok(), "tested model: {}", std::string(model.status().message()));
  model_ = std::move(*model);
  loss_ = backend_->MakeSoftmaxCrossEntropy({.rows = options.batch, .classes = options.classes});
}

LossTotals TestedModel::Loss(const Batch& batch, float* dlogits, float scale) {
  const DeviceArray<std::int32_t> labels(*backend_, batch.labels);
  const DeviceArray<float> weights(*backend_, batch.weights), scales(*backend_, {scale});
  const DeviceArray<LossTotals> totals(*backend_, {LossTotals{}});
  loss_->Bind({.logits = model_->logits(),
               .dlogits = dlogits,
               .labels = labels.data(),
               .targets = nullptr,
               .weights = weights.data(),
               .scale = scales.data(),
               .totals = totals.data()});
  loss_->Run();
  return totals.Values()[0];
}

void TestedModel::Load(const Batch& batch, const StepContext& step) {
  LOCKSTEP_CHECK(batch.rows() == options_.batch, "tested model: {} rows", batch.rows());
  backend_->Upload(batch.x.data(), model_->input(), batch.x.size() * sizeof(float));
  model_->SetStep(step);
}

LossTotals TestedModel::Step(const Batch& batch, const StepContext& step, float scale,
                             const OnReady& on_ready) {
  Load(batch, step);
  model_->Forward(Mode::kTraining);
  const LossTotals totals = Loss(batch, model_->logits_gradient(), scale);
  model_->Backward(on_ready);
  backend_->Synchronize();
  return totals;
}

LossTotals TestedModel::Evaluate(const Batch& batch) {
  Load(batch, {.valid = batch.rows()});
  model_->Forward(Mode::kEvaluation);
  return Loss(batch, nullptr, 1);
}

const TensorSlot& TestedModel::Slot(const std::string& name) const {
  for (const TensorSlot& slot : model_->parameter_slots()) {
    if (slot.name == name) return slot;
  }
  LOCKSTEP_CHECK(false, "tested model: no parameter \"{}\"", name);
  return model_->parameter_slots().front();
}

std::vector<float> TestedModel::Find(std::span<float> range, const std::string& name) {
  const TensorSlot& slot = Slot(name);
  std::vector<float> dense(static_cast<std::size_t>(slot.desc.shape.elements()));
  backend_->ToDense(slot.desc, range.data() + slot.offset, dense.data());
  return dense;
}

void TestedModel::SetParameter(const std::string& name, const std::vector<float>& values) {
  const TensorSlot& slot = Slot(name);
  LOCKSTEP_CHECK(static_cast<std::int64_t>(values.size()) == slot.desc.shape.elements(),
                 "tested model: {} values for {} {}", values.size(), name,
                 slot.desc.shape.ToString());
  backend_->FromDense(values.data(), slot.desc, model_->parameters().data() + slot.offset);
}

}  // namespace lockstep::train
