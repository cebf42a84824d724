// A model with its loss and a batch of data, for tests that run steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/check/device_array.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

// A layer of a list: LayerJson("Dense", {{"units", 10}}).
inline nlohmann::json LayerJson(const std::string& type,
                                nlohmann::json fields = nlohmann::json::object()) {
  fields["type"] = type;
  return fields;
}

struct Batch {
  std::vector<float> x;  // rows,C,H,W
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }
};

// `rows` random samples of shape `input` with random labels, drawn from `stream`; weights 1.
Batch RandomBatch(std::int64_t rows, const Shape& input, std::int64_t classes,
                  std::uint64_t stream);

// Rows [begin, begin + rows) of `batch`, then rows of weight 0 (filled with `padding`) up to
// `size`.
Batch Slice(const Batch& batch, std::int64_t begin, std::int64_t rows, std::int64_t size,
            float padding = 0);

class TestedModel {
 public:
  // See Model::Backward.
  using OnReady = std::function<void(std::int64_t, std::int64_t)>;
  TestedModel(const std::vector<nlohmann::json>& layers, const ModelOptions& options,
              const std::string& backend = "reference");

  Backend& backend() { return *backend_; }
  Model& model() { return *model_; }

  // Forward, loss times `scale`, backward; parameters stay.
  LossTotals Step(
      const Batch& batch, const StepContext& step, float scale,
      const OnReady& on_ready = [](std::int64_t, std::int64_t) {});
  // Forward and loss only, in evaluation.
  LossTotals Evaluate(const Batch& batch);
  // All of a range, as it lies in device memory.
  std::vector<float> Parameters() { return Download(*backend_, model_->parameters()); }
  std::vector<float> Gradients() { return Download(*backend_, model_->gradients()); }
  // One parameter's values or gradients, dense.
  std::vector<float> Parameter(const std::string& name) { return Find(model_->parameters(), name); }
  std::vector<float> Gradient(const std::string& name) { return Find(model_->gradients(), name); }
  void SetParameter(const std::string& name, const std::vector<float>& values);

 private:
  std::vector<float> Find(std::span<float> range, const std::string& name);
  const TensorSlot& Slot(const std::string& name) const;
  LossTotals Loss(const Batch& batch, float* dlogits, float scale);
  void Load(const Batch& batch, const StepContext& step);

  ModelOptions options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<LossOp> loss_;
};

}  // namespace lockstep::train
