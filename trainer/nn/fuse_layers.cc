#include <utility>

#include "trainer/nn/layer.h"

namespace lockstep::train {
namespace {

Pool2dSpec* AsMaxPool(Layer& layer) {
  auto* pool = std::get_if<Pool2dSpec>(&layer.spec);
  return pool != nullptr && pool->kind == PoolKind::kMax ? pool : nullptr;
}

// Returns the activation of `layer` into which a relu can be fused, or null if there is none.
Activation* FusedActivation(Layer& layer) {
  if (auto* conv = std::get_if<Conv2dSpec>(&layer.spec)) return &conv->activation;
  if (auto* dense = std::get_if<DenseSpec>(&layer.spec)) return &dense->activation;
  if (auto* pool = AsMaxPool(layer)) return &pool->activation;
  return nullptr;
}

}  // namespace

std::vector<Layer> FuseLayers(std::vector<Layer> layers) {
  std::vector<Layer> fused;
  for (Layer& layer : layers) {
    Activation* previous = fused.empty() ? nullptr : FusedActivation(fused.back());
    if (std::holds_alternative<ReluSpec>(layer.spec) && previous != nullptr) {
      *previous = Activation::kRelu;
      continue;
    }
    if (Pool2dSpec* pool = AsMaxPool(layer); pool != nullptr && !fused.empty()) {
      if (std::holds_alternative<ReluSpec>(fused.back().spec)) {
        fused.pop_back();
        pool->activation = Activation::kRelu;
      } else if (previous != nullptr) {
        pool->activation = std::exchange(*previous, Activation::kNone);
      }
    }
    fused.push_back(std::move(layer));
  }
  return fused;
}

}  // namespace lockstep::train
