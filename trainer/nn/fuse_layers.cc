#include <utility>

#include "trainer/nn/layer.h"

namespace lockstep::train {
namespace {

Pool2dSpec* AsMaxPool(Layer& layer) {
  auto* pool = std::get_if<Pool2dSpec>(&layer.spec);
  return pool != nullptr && pool->kind == PoolKind::kMax ? pool : nullptr;
}

bool IsRelu(const Layer& layer) {
  const auto* activation = std::get_if<ActivationSpec>(&layer.spec);
  return activation != nullptr && activation->activation == Activation::kRelu;
}

// Returns the field of `layer` that fuses a relu into it, or null if there is none.
bool* FusedRelu(Layer& layer) {
  if (auto* conv = std::get_if<Conv2dSpec>(&layer.spec)) return &conv->relu;
  if (auto* dense = std::get_if<DenseSpec>(&layer.spec)) return &dense->relu;
  if (auto* pool = AsMaxPool(layer)) return &pool->relu;
  return nullptr;
}

}  // namespace

std::vector<Layer> FuseLayers(std::vector<Layer> layers) {
  std::vector<Layer> fused;
  for (Layer& layer : layers) {
    bool* previous = fused.empty() ? nullptr : FusedRelu(fused.back());
    if (IsRelu(layer) && previous != nullptr) {
      *previous = true;
      continue;
    }
    if (Pool2dSpec* pool = AsMaxPool(layer); pool != nullptr && !fused.empty()) {
      if (IsRelu(fused.back())) {
        fused.pop_back();
        pool->relu = true;
      } else if (previous != nullptr) {
        pool->relu = std::exchange(*previous, false);
      }
    }
    fused.push_back(std::move(layer));
  }
  return fused;
}

}  // namespace lockstep::train
