#include "trainer/optim/optimizer_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/optim/averaged_update.h"

namespace lockstep::train {
namespace {

absl::Status OutOfRange(const char* field, double found, const char* expected) {
  return absl::InvalidArgumentError(
      fmt::format("optimizer.{}: found {}, expected {}", field, found, expected));
}

// The rules compute with floats, so their ranges are those of floats: 1e-46 would be a zero.
absl::StatusOr<float> Fraction(const char* field, double found) {
  const auto value = static_cast<float>(found);
  if (value >= 0 && value < 1) return value;
  return OutOfRange(field, found, "[0, 1) as a 32-bit float");
}

absl::StatusOr<float> Positive(const char* field, double found) {
  const auto value = static_cast<float>(found);
  if (value > 0 && std::isfinite(value)) return value;
  return OutOfRange(field, found, "above 0 and finite as a 32-bit float");
}

absl::StatusOr<float> NotNegative(const char* field, double found) {
  const auto value = static_cast<float>(found);
  if (found >= 0 && std::isfinite(value)) return value;
  return OutOfRange(field, found, "at least 0 and finite as a 32-bit float");
}

absl::StatusOr<OptimizerRuleOp> MakeSgd(const api::OptimizerSpec& spec, Backend& backend) {
  SgdSpec sgd{.nesterov = spec.nesterov};
  LOCKSTEP_ASSIGN_OR_RETURN(sgd.weight_decay, NotNegative("weightDecay", spec.weight_decay));
  LOCKSTEP_ASSIGN_OR_RETURN(sgd.momentum, Fraction("momentum", spec.momentum));
  std::vector<std::string> slot_names;
  if (sgd.momentum != 0) slot_names = {"momentum"};
  return OptimizerRuleOp{.op = backend.MakeOptimizer(sgd), .slot_names = std::move(slot_names)};
}

// The factors of Adam, or of LAMB, which takes Adam's direction.
template <typename Spec>
absl::StatusOr<Spec> WithMoments(const api::OptimizerSpec& spec) {
  Spec rule;
  LOCKSTEP_ASSIGN_OR_RETURN(rule.weight_decay, NotNegative("weightDecay", spec.weight_decay));
  LOCKSTEP_ASSIGN_OR_RETURN(rule.beta1, Fraction("beta1", spec.beta1));
  LOCKSTEP_ASSIGN_OR_RETURN(rule.beta2, Fraction("beta2", spec.beta2));
  LOCKSTEP_ASSIGN_OR_RETURN(rule.epsilon, Positive("epsilon", spec.epsilon));
  return rule;
}

template <typename Spec>
absl::StatusOr<OptimizerRuleOp> MakeWithMoments(const api::OptimizerSpec& spec, Backend& backend) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Spec rule, WithMoments<Spec>(spec));
  return OptimizerRuleOp{.op = backend.MakeOptimizer(rule), .slot_names = {"m", "v"}};
}

absl::StatusOr<OptimizerRuleOp> MakeRmsprop(const api::OptimizerSpec& spec, Backend& backend) {
  RmspropSpec rmsprop;
  LOCKSTEP_ASSIGN_OR_RETURN(rmsprop.weight_decay, NotNegative("weightDecay", spec.weight_decay));
  LOCKSTEP_ASSIGN_OR_RETURN(rmsprop.rho, Fraction("rho", spec.rho));
  LOCKSTEP_ASSIGN_OR_RETURN(rmsprop.momentum, Fraction("momentum", spec.momentum));
  LOCKSTEP_ASSIGN_OR_RETURN(rmsprop.epsilon, Positive("epsilon", spec.epsilon));
  std::vector<std::string> slot_names = {"square"};
  if (rmsprop.momentum != 0) slot_names.emplace_back("momentum");
  return OptimizerRuleOp{.op = backend.MakeOptimizer(rmsprop), .slot_names = std::move(slot_names)};
}

absl::StatusOr<OptimizerRuleOp> MakeAdagrad(const api::OptimizerSpec& spec, Backend& backend) {
  AdagradSpec adagrad;
  LOCKSTEP_ASSIGN_OR_RETURN(adagrad.weight_decay, NotNegative("weightDecay", spec.weight_decay));
  LOCKSTEP_ASSIGN_OR_RETURN(adagrad.epsilon, Positive("epsilon", spec.epsilon));
  LOCKSTEP_ASSIGN_OR_RETURN(const float start,
                            NotNegative("initialAccumulatorValue", spec.initial_accumulator_value));
  return OptimizerRuleOp{
      .op = backend.MakeOptimizer(adagrad), .slot_names = {"accumulator"}, .slot_starts = {start}};
}

absl::StatusOr<OptimizerRuleOp> MakeLars(const api::OptimizerSpec& spec, Backend& backend) {
  LarsSpec lars{.nesterov = spec.nesterov};
  LOCKSTEP_ASSIGN_OR_RETURN(lars.weight_decay, NotNegative("weightDecay", spec.weight_decay));
  LOCKSTEP_ASSIGN_OR_RETURN(lars.momentum, Fraction("momentum", spec.momentum));
  LOCKSTEP_ASSIGN_OR_RETURN(lars.trust_coefficient,
                            Positive("trustCoefficient", spec.trust_coefficient));
  std::vector<std::string> slot_names;
  if (lars.momentum != 0) slot_names = {"momentum"};
  return OptimizerRuleOp{.op = backend.MakeOptimizer(lars), .slot_names = std::move(slot_names)};
}

absl::StatusOr<OptimizerRuleOp> MakeMuon(const api::OptimizerSpec& spec, Backend& backend,
                                         std::vector<MatrixRange> matrices) {
  MuonSpec muon{.matrices = std::move(matrices), .nesterov = spec.muon_nesterov};
  LOCKSTEP_ASSIGN_OR_RETURN(muon.momentum, Fraction("muonMomentum", spec.muon_momentum));
  LOCKSTEP_ASSIGN_OR_RETURN(muon.adam, WithMoments<AdamSpec>(spec));
  LOCKSTEP_ASSIGN_OR_RETURN(muon.adam.rate_ratio, Positive("adamLrRatio", spec.adam_lr_ratio));
  return OptimizerRuleOp{.op = backend.MakeOptimizer(muon), .slot_names = {"m", "v"}};
}

absl::StatusOr<OptimizerRuleOp> MakeUpdate(const api::OptimizerSpec& spec, Backend& backend,
                                           std::vector<MatrixRange> matrices) {
  if (spec.name == "SGD") return MakeSgd(spec, backend);
  if (spec.name == "Adam") return MakeWithMoments<AdamSpec>(spec, backend);
  if (spec.name == "RMSprop") return MakeRmsprop(spec, backend);
  if (spec.name == "Adagrad") return MakeAdagrad(spec, backend);
  if (spec.name == "LARS") return MakeLars(spec, backend);
  if (spec.name == "LAMB") return MakeWithMoments<LambSpec>(spec, backend);
  if (spec.name == "Muon") return MakeMuon(spec, backend, std::move(matrices));
  return absl::InvalidArgumentError(
      fmt::format("optimizer.name: found \"{}\", expected \"Adam\", \"SGD\", \"RMSprop\", "
                  "\"Adagrad\", \"LARS\", \"LAMB\" or \"Muon\"",
                  spec.name));
}

bool IsNamedBy(const std::vector<std::string>& texts, const TensorSlot& slot) {
  return std::ranges::any_of(
      texts, [&](const std::string& text) { return slot.name.find(text) != std::string::npos; });
}

bool IsMatrix(const TensorSlot& slot) {
  return slot.desc.shape.rank() == 2;
}

// `tensors`: those that a text may name, of which each is a `what`.
absl::Status CheckNameParts(const char* field, const char* what,
                            const std::vector<std::string>& texts,
                            const std::vector<TensorSlot>& tensors) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool is_used = std::ranges::any_of(
        tensors, [&](const TensorSlot& slot) { return IsNamedBy({texts[i]}, slot); });
    if (is_used) continue;
    const std::string found = fmt::format("optimizer.{}[{}]: found \"{}\"", field, i, texts[i]);
    if (tensors.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}, expected none: the model has no {}", found, what));
    }
    return absl::InvalidArgumentError(fmt::format(
        "{}, expected a part of a {}'s name, such as \"{}\"", found, what, tensors.back().name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OptimizerRuleOp> MakeOptimizerRule(const api::OptimizerSpec& spec,
                                                  const std::optional<api::EmaSpec>& ema,
                                                  Backend& backend,
                                                  std::vector<MatrixRange> matrices) {
  LOCKSTEP_ASSIGN_OR_RETURN(OptimizerRuleOp rule, MakeUpdate(spec, backend, std::move(matrices)));
  if (!ema) return rule;
  const auto decay = static_cast<float>(ema->decay);
  if (!(decay > 0 && decay < 1)) {
    return absl::InvalidArgumentError(fmt::format(
        "ema.decay: found {}, expected above 0 and below 1 as a 32-bit float", ema->decay));
  }
  rule.op = MakeAveragedUpdate(std::move(rule.op), decay, backend);
  rule.slot_names.emplace_back(kAverageSlot);
  rule.slot_starts.push_back(0);
  rule.averages = true;
  return rule;
}

absl::StatusOr<std::vector<MatrixRange>> MatricesOf(const api::OptimizerSpec& spec, Model& model) {
  std::vector<MatrixRange> matrices;
  if (!api::MultipliesMatrices(spec)) return matrices;
  // A text that names only tensors that are updated by AdamW anyway would do nothing.
  std::vector<TensorSlot> whole = model.whole_parameter_slots();
  std::erase_if(whole, [](const TensorSlot& slot) { return !IsMatrix(slot); });
  LOCKSTEP_RETURN_IF_ERROR(CheckNameParts("excludeLayers", "matrix", spec.exclude_layers, whole));
  for (const TensorSlot& slot : model.parameter_slots()) {
    const Shape& shape = slot.desc.shape;
    if (!IsMatrix(slot) || IsNamedBy(spec.exclude_layers, slot)) continue;
    LOCKSTEP_CHECK(slot.desc.dense(), "muon: the matrix {} is not row-major", slot.name);
    matrices.push_back({.begin = slot.offset, .rows = shape[0], .columns = shape[1]});
  }
  return matrices;
}

absl::StatusOr<std::vector<OptimizerSegment>> OptimizerSegments(const api::OptimizerSpec& spec,
                                                                Model& model) {
  const std::vector<std::string>& exclude = spec.weight_decay_exclude;
  const bool by_tensor = api::MeasuresTensors(spec);
  std::vector<OptimizerSegment> segments;
  if (exclude.empty() && !by_tensor) return segments;
  for (const TensorSlot& slot : model.parameter_slots()) {
    const bool decays = !IsNamedBy(exclude, slot);
    if (segments.empty()) {
      segments.push_back({.decays = decays});
    } else if (by_tensor || segments.back().decays != decays) {
      segments.back().end = slot.offset;
      segments.push_back({.begin = slot.offset, .decays = decays});
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(
      CheckNameParts("weightDecayExclude", "parameter", exclude, model.whole_parameter_slots()));
  if (!segments.empty()) {
    segments.back().end = static_cast<std::int64_t>(model.parameters().size());
  }
  return segments;
}

}  // namespace lockstep::train
