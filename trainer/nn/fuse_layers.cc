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
  if (auto* depthwise = std::get_if<DepthwiseConv2dSpec>(&layer.spec)) return &depthwise->relu;
  if (auto* dense = std::get_if<DenseSpec>(&layer.spec)) return &dense->relu;
  if (auto* add = std::get_if<AddSpec>(&layer.spec)) return &add->relu;
  if (auto* norm = std::get_if<BatchNormSpec>(&layer.spec)) return &norm->relu;
  if (auto* pool = AsMaxPool(layer)) return &pool->relu;
  return nullptr;
}

// Returns the field of `layer` that fuses a ZeroPadding2D into it, or null if there is none.
Edges* FusedZeros(Layer& layer) {
  if (auto* conv = std::get_if<Conv2dSpec>(&layer.spec)) return &conv->zeros;
  if (auto* depthwise = std::get_if<DepthwiseConv2dSpec>(&layer.spec)) return &depthwise->zeros;
  auto* pool = AsMaxPool(layer);
  return pool != nullptr && pool->relu ? &pool->zeros : nullptr;
}

// True if the layer's spec, which is one of those in FusedZeros, allows zeros at these edges.
bool MayHave(const Layer& layer, const Edges& edges) {
  const auto allows = [&](const auto& spec, std::int64_t height, std::int64_t width) {
    return spec.zeros == Edges{} && spec.padding == Padding::kValid && edges.top < height &&
           edges.bottom < height && edges.left < width && edges.right < width;
  };
  if (const auto* conv = std::get_if<Conv2dSpec>(&layer.spec)) {
    return allows(*conv, conv->kernel_h, conv->kernel_w);
  }
  if (const auto* depthwise = std::get_if<DepthwiseConv2dSpec>(&layer.spec)) {
    return allows(*depthwise, depthwise->kernel_h, depthwise->kernel_w);
  }
  const auto& pool = std::get<Pool2dSpec>(layer.spec);
  return allows(pool, pool.window_h, pool.window_w);
}

std::vector<int> CountReaders(const std::vector<Layer>& layers) {
  std::vector<int> readers(layers.size(), 0);
  for (const Layer& layer : layers) {
    for (const int input : layer.inputs) {
      if (input != kSamples) ++readers[static_cast<std::size_t>(input)];
    }
  }
  return readers;
}

class Fuser {
 public:
  explicit Fuser(std::vector<Layer> layers)
      : layers_(std::move(layers)), readers_(CountReaders(layers_)), stands_for_(layers_.size()) {}

  std::vector<Layer> Run() && {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      stands_for_[i] = static_cast<int>(i);
      for (int& input : layers_[i].inputs) {
        if (input != kSamples) input = stands_for_[static_cast<std::size_t>(input)];
      }
      if (IsRelu(layers_[i])) FuseIntoInput(i);
      if (AsMaxPool(layers_[i]) != nullptr) FuseFromInput(i);
      FuseZeros(i);
    }
    return Compacted();
  }

 private:
  // The one input of layer `i` if no other layer reads it, else null.
  Layer* OnlyInput(std::size_t i) {
    const int input = layers_[i].inputs.front();
    if (input == kSamples || readers_[static_cast<std::size_t>(input)] != 1) return nullptr;
    return &layers_[static_cast<std::size_t>(input)];
  }

  void FuseIntoInput(std::size_t relu) {
    Layer* input = OnlyInput(relu);
    bool* fused = input == nullptr ? nullptr : FusedRelu(*input);
    if (fused == nullptr) return;
    *fused = true;
    const int stands = layers_[relu].inputs.front();
    readers_[static_cast<std::size_t>(stands)] = readers_[relu];
    stands_for_[relu] = stands;
  }

  // Moves the relu before a max pool into the pool; zeros in between are relu's own values.
  void FuseFromInput(std::size_t pool) {
    Layer* input = OnlyInput(pool);
    if (input == nullptr) return;
    if (std::holds_alternative<ZeroPadding2dSpec>(input->spec)) {
      FusePastZeros(pool, static_cast<std::size_t>(layers_[pool].inputs.front()));
      return;
    }
    bool* before = FusedRelu(*input);
    if (IsRelu(*input)) {
      stands_for_[static_cast<std::size_t>(layers_[pool].inputs.front())] = input->inputs.front();
      layers_[pool].inputs = input->inputs;
      AsMaxPool(layers_[pool])->relu = true;
    } else if (before != nullptr && *before) {
      AsMaxPool(layers_[pool])->relu = std::exchange(*before, false);
    }
  }

  void FusePastZeros(std::size_t pool, std::size_t zeros) {
    Layer* before = OnlyInput(zeros);
    if (before == nullptr) return;
    bool* fused = FusedRelu(*before);
    if (IsRelu(*before)) {
      stands_for_[static_cast<std::size_t>(layers_[zeros].inputs.front())] = before->inputs.front();
      layers_[zeros].inputs = before->inputs;
      AsMaxPool(layers_[pool])->relu = true;
    } else if (fused != nullptr && *fused) {
      AsMaxPool(layers_[pool])->relu = std::exchange(*fused, false);
    }
  }

  // Lets a convolution, or a max pool with relu, read zeros past the edges of its input instead of
  // a copy with zeros around.
  void FuseZeros(std::size_t window) {
    Edges* zeros = FusedZeros(layers_[window]);
    Layer* input = zeros == nullptr ? nullptr : OnlyInput(window);
    const auto* padding = input == nullptr ? nullptr : std::get_if<ZeroPadding2dSpec>(&input->spec);
    if (padding == nullptr || !MayHave(layers_[window], padding->edges)) return;
    *zeros = padding->edges;
    stands_for_[static_cast<std::size_t>(layers_[window].inputs.front())] = input->inputs.front();
    layers_[window].inputs = input->inputs;
  }

  std::vector<Layer> Compacted() {
    std::vector<Layer> kept;
    std::vector<int> position(layers_.size());
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (stands_for_[i] != static_cast<int>(i)) continue;
      position[i] = static_cast<int>(kept.size());
      for (int& input : layers_[i].inputs) {
        if (input != kSamples) input = position[static_cast<std::size_t>(input)];
      }
      kept.push_back(std::move(layers_[i]));
    }
    return kept;
  }

  std::vector<Layer> layers_;
  std::vector<int> readers_;     // how many inputs name the layer
  std::vector<int> stands_for_;  // the layer that gives its output: itself, unless it is removed
};

}  // namespace

std::vector<Layer> FuseLayers(std::vector<Layer> layers) {
  return Fuser(std::move(layers)).Run();
}

}  // namespace lockstep::train
