#include "trainer/nn/op_facts.h"

#include <cstdint>
#include <variant>

#include "trainer/backend/activation_names.h"

namespace lockstep::train {
namespace {

std::string Fused(const Edges& zeros, std::string type, bool relu) {
  if (zeros != Edges{}) type = "ZeroPadding2D + " + type;
  return relu ? type + " + ReLU" : type;
}

// The backward pass makes one product for the weights' gradient, and another for that of x.
OpFacts Product(std::string type, double forward, bool input_gradient) {
  return {.type = std::move(type),
          .forward_flops = forward,
          .backward_flops = input_gradient ? 2 * forward : forward};
}

double Flops(std::int64_t weights, std::int64_t uses) {
  return 2 * static_cast<double>(weights) * static_cast<double>(uses);
}

struct Describe {
  const Shape& y;

  OpFacts operator()(const Conv2dSpec& spec) const {
    const std::int64_t weights = spec.x.shape[1] * spec.kernel_h * spec.kernel_w;
    return Product(Fused(spec.zeros, "Conv2D", spec.relu), Flops(weights, y.elements()),
                   spec.input_gradient);
  }
  OpFacts operator()(const DepthwiseConv2dSpec& spec) const {
    return Product(Fused(spec.zeros, "DepthwiseConv2D", spec.relu),
                   Flops(spec.kernel_h * spec.kernel_w, y.elements()), spec.input_gradient);
  }
  OpFacts operator()(const DenseSpec& spec) const {
    return Product(Fused({}, "Dense", spec.relu), Flops(spec.units, spec.x.shape.elements()),
                   spec.input_gradient);
  }
  OpFacts operator()(const Pool2dSpec& spec) const {
    const char* const type = spec.kind == PoolKind::kMax ? "MaxPooling2D" : "AveragePooling2D";
    return {.type = Fused(spec.zeros, type, spec.relu)};
  }
  OpFacts operator()(const AddSpec& spec) const { return {.type = Fused({}, "Add", spec.relu)}; }
  OpFacts operator()(const ActivationSpec& spec) const {
    if (spec.activation == Activation::kRelu) return {.type = "ReLU"};
    if (spec.activation == Activation::kLeakyRelu) return {.type = "LeakyReLU"};
    return {.type = "Activation " + std::string(ActivationName(spec.activation))};
  }
  OpFacts operator()(const GlobalAveragePool2dSpec&) const {
    return {.type = "GlobalAveragePooling2D"};
  }
  OpFacts operator()(const BatchNormSpec& spec) const {
    return {.type = Fused({}, "BatchNormalization", spec.relu)};
  }
  OpFacts operator()(const LayerNormSpec&) const { return {.type = "LayerNormalization"}; }
  OpFacts operator()(const DropoutSpec&) const { return {.type = "Dropout"}; }
  OpFacts operator()(const ConcatenateSpec&) const { return {.type = "Concatenate"}; }
  OpFacts operator()(const ZeroPadding2dSpec&) const { return {.type = "ZeroPadding2D"}; }
  OpFacts operator()(const FlattenSpec&) const { return {.type = "Flatten"}; }
};

}  // namespace

OpFacts FactsOf(const OpSpec& spec, const Shape& y) {
  return std::visit(Describe{y}, spec);
}

}  // namespace lockstep::train
