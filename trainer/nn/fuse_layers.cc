#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

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
  return std::visit(
      [](auto& spec) -> bool* {
        using Spec = std::remove_reference_t<decltype(spec)>;
        if constexpr (std::is_same_v<Spec, Pool2dSpec>) {
          return spec.kind == PoolKind::kMax ? &spec.relu : nullptr;
        } else if constexpr (requires { spec.relu; }) {
          return &spec.relu;
        } else {
          return nullptr;
        }
      },
      layer.spec);
}

// Takes the fused relu out of `layer`; returns false if there is none to take. A max pool that
// reads zeros past its edges needs its own: see Pool2dSpec.
bool TakeFusedRelu(Layer& layer) {
  bool* relu = FusedRelu(layer);
  const Pool2dSpec* pool = AsMaxPool(layer);
  if (relu == nullptr || (pool != nullptr && pool->zeros != Edges{})) return false;
  return std::exchange(*relu, false);
}

bool IsInside(const Edges& edges, std::int64_t height, std::int64_t width) {
  return edges.top < height && edges.bottom < height && edges.left < width && edges.right < width;
}

// True if the op can read zeros at these edges of its image.
bool TakesZeros(const Pool2dSpec& pool, const Edges& edges) {
  return pool.kind == PoolKind::kMax && pool.relu && IsInside(edges, pool.window_h, pool.window_w);
}
bool TakesZeros(const auto& convolution, const Edges& edges) {
  return IsInside(edges, convolution.kernel_h, convolution.kernel_w);
}

// Returns the field of `layer` that fuses a ZeroPadding2D with these edges into it, or null if the
// layer cannot have it.
Edges* FusedZeros(Layer& layer, const Edges& edges) {
  return std::visit(
      [&edges](auto& spec) -> Edges* {
        if constexpr (requires { spec.zeros; }) {
          const bool is_free = spec.zeros == Edges{} && spec.padding == Padding::kValid;
          return is_free && TakesZeros(spec, edges) ? &spec.zeros : nullptr;
        } else {
          return nullptr;
        }
      },
      layer.spec);
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
    std::size_t reader = pool;  // of the relu
    Layer* input = OnlyInput(pool);
    if (input != nullptr && std::holds_alternative<ZeroPadding2dSpec>(input->spec)) {
      reader = static_cast<std::size_t>(layers_[pool].inputs.front());
      input = OnlyInput(reader);
    }
    if (input == nullptr) return;
    if (IsRelu(*input)) {
      stands_for_[static_cast<std::size_t>(layers_[reader].inputs.front())] = input->inputs.front();
      layers_[reader].inputs = input->inputs;
      AsMaxPool(layers_[pool])->relu = true;
    } else {
      AsMaxPool(layers_[pool])->relu = TakeFusedRelu(*input);
    }
  }

  // Lets a convolution, or a max pool with relu, read zeros past the edges of its input instead of
  // a copy with zeros around.
  void FuseZeros(std::size_t window) {
    Layer* input = OnlyInput(window);
    const auto* padding = input == nullptr ? nullptr : std::get_if<ZeroPadding2dSpec>(&input->spec);
    Edges* zeros = padding == nullptr ? nullptr : FusedZeros(layers_[window], padding->edges);
    if (zeros == nullptr) return;
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
