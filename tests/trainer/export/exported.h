// Models and their tensors for tests of exports.
#pragma once

#include <numeric>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/nn/model.h"
#include "trainer/nn/model_description.h"

namespace lockstep::train {

inline ModelDescription OneDenseLayer() {
  return {.layers = {{{"type", "Dense"}, {"units", 2}}}, .input = {3}, .outputs = 2};
}

// Returns every parameter and running statistic of the model, filled with 0, 1, 2, …
inline std::vector<NamedTensor> TensorsOf(const ModelDescription& description,
                                          OutputKind kind = OutputKind::kClassLogits) {
  const auto backend = MakeBackend({.name = "reference"});
  const auto model = *Model::Build(description.layers,
                                   {.batch = 1,
                                    .input = description.input,
                                    .classes = description.outputs,
                                    .outputs = {.kind = kind}},
                                   *backend);
  std::vector<NamedTensor> tensors;
  for (const auto& slots : {model->parameter_slots(), model->state_slots()}) {
    for (const TensorSlot& slot : slots) {
      NamedTensor tensor{.name = slot.name, .shape = slot.desc.shape};
      tensor.data.resize(static_cast<std::size_t>(tensor.shape.elements()));
      std::iota(tensor.data.begin(), tensor.data.end(), 0.0F);
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace lockstep::train
