#include "trainer/nn/op_facts.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <variant>

#include "trainer/backend/activation_names.h"

namespace lockstep::train {
namespace {

std::string TypeOf(const ActivationSpec& spec) {
  if (spec.activation == Activation::kRelu) return "ReLU";
  if (spec.activation == Activation::kLeakyRelu) return "LeakyReLU";
  return fmt::format("{} {}", spec.kName, ActivationName(spec.activation));
}
std::string TypeOf(const auto& spec) {
  std::string type(OpName(spec));
  if constexpr (requires { spec.zeros; }) {
    if (spec.zeros != Edges{}) type = fmt::format("{} + {}", ZeroPadding2dSpec::kName, type);
  }
  if constexpr (requires { spec.relu; }) {
    if (spec.relu) type += " + ReLU";
  }
  return type;
}

double Flops(std::int64_t weights, std::int64_t uses) {
  return 2 * static_cast<double>(weights) * static_cast<double>(uses);
}

// The operations of a forward pass whose output is `y`.
double ForwardFlops(const Conv2dSpec& spec, const Shape& y) {
  return Flops(spec.x.shape[1] * spec.kernel_h * spec.kernel_w, y.elements());
}
double ForwardFlops(const DepthwiseConv2dSpec& spec, const Shape& y) {
  return Flops(spec.kernel_h * spec.kernel_w, y.elements());
}
double ForwardFlops(const DenseSpec& spec, const Shape&) {
  return Flops(spec.units, spec.x.shape.elements());
}

OpFacts Describe(const auto& spec, const Shape& y) {
  OpFacts facts{.type = TypeOf(spec)};
  if constexpr (requires { ForwardFlops(spec, y); }) {
    facts.forward_flops = ForwardFlops(spec, y);
    // One product for the weights' gradient, and another for that of x.
    facts.backward_flops = (spec.input_gradient ? 2 : 1) * facts.forward_flops;
  }
  return facts;
}

}  // namespace

OpFacts FactsOf(const OpSpec& spec, const Shape& y) {
  return std::visit([&y](const auto& op) { return Describe(op, y); }, spec);
}

}  // namespace lockstep::train
