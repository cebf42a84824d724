#include "trainer/optim/optimizer_rule.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace lockstep::train {
namespace {

constexpr char kFractionText[] = "[0, 1) as a 32-bit float";

absl::Status OutOfRange(const char* field, double found, const char* expected) {
  return absl::InvalidArgumentError(
      fmt::format("optimizer.{}: found {}, expected {}", field, found, expected));
}

bool IsFraction(float value) {
  return value >= 0 && value < 1;
}

}  // namespace

// The rules compute with floats, so their ranges are those of floats: 1e-46 would be a zero.
absl::StatusOr<OptimizerRuleOp> MakeOptimizerRule(const api::OptimizerSpec& spec,
                                                  Backend& backend) {
  const auto weight_decay = static_cast<float>(spec.weight_decay);
  if (!(spec.weight_decay >= 0 && std::isfinite(weight_decay)))
    return OutOfRange("weightDecay", spec.weight_decay, "at least 0 and finite as a 32-bit float");
  if (spec.name == "SGD") {
    const auto momentum = static_cast<float>(spec.momentum);
    if (!IsFraction(momentum)) return OutOfRange("momentum", spec.momentum, kFractionText);
    OptimizerRuleOp rule{
        .op = backend.MakeOptimizer(
            SgdSpec{.momentum = momentum, .nesterov = spec.nesterov, .weight_decay = weight_decay}),
        .slot_names = {}};
    if (momentum != 0) rule.slot_names = {"momentum"};
    return rule;
  }
  if (spec.name == "Adam") {
    const auto beta1 = static_cast<float>(spec.beta1), beta2 = static_cast<float>(spec.beta2);
    const auto epsilon = static_cast<float>(spec.epsilon);
    if (!IsFraction(beta1)) return OutOfRange("beta1", spec.beta1, kFractionText);
    if (!IsFraction(beta2)) return OutOfRange("beta2", spec.beta2, kFractionText);
    if (!(epsilon > 0 && std::isfinite(epsilon)))
      return OutOfRange("epsilon", spec.epsilon, "above 0 and finite as a 32-bit float");
    return OptimizerRuleOp{
        .op = backend.MakeOptimizer(AdamSpec{
            .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = weight_decay}),
        .slot_names = {"m", "v"}};
  }
  return absl::InvalidArgumentError(
      fmt::format("optimizer.name: found \"{}\", expected \"Adam\" or \"SGD\"", spec.name));
}

absl::StatusOr<std::vector<OptimizerSegment>> DecaySegments(
    Model& model, const std::vector<std::string>& exclude) {
  std::vector<OptimizerSegment> segments;
  if (exclude.empty()) return segments;
  std::vector<bool> is_used(exclude.size(), false);
  for (const TensorSlot& slot : model.parameter_slots()) {
    bool decays = true;
    for (std::size_t i = 0; i < exclude.size(); ++i) {
      if (slot.name.find(exclude[i]) == std::string::npos) continue;
      decays = false;
      is_used[i] = true;
    }
    if (segments.empty()) {
      segments.push_back({.decays = decays});
    } else if (segments.back().decays != decays) {
      segments.back().end = slot.offset;
      segments.push_back({.begin = slot.offset, .decays = decays});
    }
  }
  for (std::size_t i = 0; i < exclude.size(); ++i) {
    if (is_used[i]) continue;
    return absl::InvalidArgumentError(fmt::format(
        "optimizer.weightDecayExclude[{}]: found \"{}\", expected a part of a parameter's name, "
        "such as \"{}\"",
        i, exclude[i], model.parameter_slots().empty() ? "" : model.parameter_slots().back().name));
  }
  segments.back().end = static_cast<std::int64_t>(model.parameters().size());
  return segments;
}

}  // namespace lockstep::train
