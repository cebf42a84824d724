#include "trainer/backend/parameters.h"

#include <utility>
#include <variant>

namespace lockstep::train {
namespace {

// For the ops that have none.
std::vector<ParameterDesc> Parameters(const auto& /*spec*/) {
  return {};
}
std::vector<ParameterDesc> States(const auto& /*spec*/) {
  return {};
}

std::vector<ParameterDesc> WeightAndBias(Shape weight, std::int64_t fan_in, std::int64_t fan_out,
                                         bool bias) {
  const std::int64_t units = weight[0];
  std::vector<ParameterDesc> parameters = {{.name = "weight",
                                            .desc = {.shape = std::move(weight)},
                                            .init = Init::kGlorotUniform,
                                            .fan_in = fan_in,
                                            .fan_out = fan_out}};
  if (bias) parameters.push_back({.name = "bias", .desc = {.shape = {units}}});
  return parameters;
}

// weight (K,C,R,S), and bias (K) if spec.bias.
std::vector<ParameterDesc> Parameters(const Conv2dSpec& spec) {
  const std::int64_t channels = spec.x.shape[1], field = spec.kernel_h * spec.kernel_w;
  return WeightAndBias({spec.filters, channels, spec.kernel_h, spec.kernel_w}, field * channels,
                       field * spec.filters, spec.bias);
}

// weight (C*M,1,R,S), and bias (C*M) if spec.bias.
std::vector<ParameterDesc> Parameters(const DepthwiseConv2dSpec& spec) {
  const std::int64_t channels = spec.x.shape[1], field = spec.kernel_h * spec.kernel_w;
  return WeightAndBias({channels * spec.depth_multiplier, 1, spec.kernel_h, spec.kernel_w},
                       field * channels, field * spec.depth_multiplier, spec.bias);
}

// weight (units, features of x), and bias (units) if spec.bias.
std::vector<ParameterDesc> Parameters(const DenseSpec& spec) {
  const std::int64_t inputs = spec.x.shape.elements() / spec.x.shape[0];
  return WeightAndBias({spec.units, inputs}, inputs, spec.units, spec.bias);
}

// gamma (C) and beta (C).
std::vector<ParameterDesc> Parameters(const BatchNormSpec& spec) {
  const TensorDesc channels{.shape = {spec.x.shape[1]}};
  return {{.name = "gamma", .desc = channels, .init = spec.zero_gamma ? Init::kZeros : Init::kOnes},
          {.name = "beta", .desc = channels}};
}

// mean (C) and variance (C).
std::vector<ParameterDesc> States(const BatchNormSpec& spec) {
  const TensorDesc channels{.shape = {spec.x.shape[1]}};
  return {{.name = "mean", .desc = channels, .kept = spec.momentum},
          {.name = "variance", .desc = channels, .init = Init::kOnes, .kept = spec.momentum}};
}

// gamma (C) if spec.scale, and beta (C) if spec.center.
std::vector<ParameterDesc> Parameters(const LayerNormSpec& spec) {
  const TensorDesc channels{.shape = {spec.x.shape[1]}};
  std::vector<ParameterDesc> parameters;
  if (spec.scale) parameters.push_back({.name = "gamma", .desc = channels, .init = Init::kOnes});
  if (spec.center) parameters.push_back({.name = "beta", .desc = channels});
  return parameters;
}

}  // namespace

std::vector<ParameterDesc> ParametersOf(const OpSpec& spec) {
  return std::visit([](const auto& op) { return Parameters(op); }, spec);
}

std::vector<ParameterDesc> StatesOf(const OpSpec& spec) {
  return std::visit([](const auto& op) { return States(op); }, spec);
}

}  // namespace lockstep::train
