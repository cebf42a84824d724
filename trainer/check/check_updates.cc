#include "trainer/check/check_updates.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/check/check_case.h"
#include "trainer/check/run_op.h"
#include "trainer/check/run_optimizer.h"
#include "trainer/check/run_update.h"

namespace lockstep::train {
namespace {

struct NamedRule {
  std::string_view name;
  OptimizerRule rule;
};
const std::array kRules = {
    NamedRule{"SGD", SgdSpec{}},
    NamedRule{"SGDMomentum", SgdSpec{.momentum = 0.9f}},
    NamedRule{"SGDNesterov", SgdSpec{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f}},
    NamedRule{"Adam", AdamSpec{}},
    NamedRule{"AdamW", AdamSpec{.beta1 = 0.8f, .weight_decay = 0.01f}},
    NamedRule{"RMSprop", RmspropSpec{.rho = 0.7f, .epsilon = 1e-3f}},
    NamedRule{"RMSpropMomentum", RmspropSpec{.momentum = 0.8f, .weight_decay = 0.01f}},
    NamedRule{"Adagrad", AdagradSpec{.epsilon = 1e-3f, .weight_decay = 0.01f}},
    NamedRule{"LARS", LarsSpec{.trust_coefficient = 0.1f}},
    NamedRule{"LARSNesterov", LarsSpec{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f}},
    NamedRule{"LAMB", LambSpec{}},
    NamedRule{"LAMBDecay", LambSpec{.beta1 = 0.8f, .weight_decay = 0.1f}},
    NamedRule{"Muon", MuonSpec{.matrices = MatricesToUpdate()}},
    NamedRule{"MuonDecay", MuonSpec{.matrices = MatricesToUpdate(),
                                    .nesterov = false,
                                    .adam = {.weight_decay = 0.1f, .rate_ratio = 0.5f}}}};

// Replicas on different back ends train one model together, so they must round an update alike. The
// sums of LARS, LAMB and Muon may have another order than those of `cpu`.
bool IsSameOnAll(const OptimizerRule& rule) {
  return !std::holds_alternative<LarsSpec>(rule) && !std::holds_alternative<LambSpec>(rule) &&
         !std::holds_alternative<MuonSpec>(rule);
}

void CheckRule(Backend& backend, CheckGroup& group, const NamedRule& rule,
               const OptimizerRun& run) {
  CheckCase result(group, std::string(rule.name),
                   fmt::format("[{}]{}", run.size, run.in_segments ? ", in segments" : ""));
  result.Run([&] {
    const bool is_same = IsSameOnAll(rule.rule);
    const auto oracle = MakeBackend({.name = is_same ? "cpu" : "reference"});
    const OptimizerOutputs expected = RunOptimizer(*oracle, rule.rule, run),
                           found = RunOptimizer(backend, rule.rule, run);
    if (found.tensors.size() != expected.tensors.size()) {
      return result.Fail(fmt::format("has {} slots, expected {}", found.tensors.size() - 1,
                                     expected.tensors.size() - 1));
    }
    if (found.changed[kNotAppliedStep - 1]) {
      result.Fail("a step that does not apply has changed values");
    }
    for (std::size_t i = 0; i < found.tensors.size(); ++i) {
      const std::string what = i == 0 ? "values" : fmt::format("slot {}", i - 1);
      if (is_same) {
        result.Same(what, found.tensors[i], expected.tensors[i]);
      } else {
        result.Close(what, found.tensors[i], expected.tensors[i]);
      }
    }
  });
}

struct NamedUpdate {
  std::string_view name;
  UpdateInputs inputs;
};

std::vector<NamedUpdate> Updates() {
  constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const UpdateSettings scaled{.adapts_loss_scale = true};
  return {{"Finite", {}},
          {"ManyGradients", {.gradients = RandomValues(300'007, 1)}},
          {"Clipped", {.settings = {.clip_norm = 2}, .gradients = RandomValues(10'007, 2)}},
          {"LossIsNotANumber", {.tail = {.loss = kNotANumber}}},
          {"LossIsNotANumberAndMayBeSkipped",
           {.settings = {.may_skip_in_a_row = 3}, .tail = {.loss = kNotANumber}}},
          {"AfterSkips",
           {.settings = {.step = 9}, .gate = {.skipped_in_a_row = 2, .skipped_steps = 5}}},
          {"GradientIsNotANumber", {.gradients = {1, kNotANumber}}},
          {"GradientIsInfinite", {.gradients = {kInfinity}}},
          {"NotSummed", {.is_summed = false}},
          {"GateIsClosed", {.gate = {.closed = true}}},
          {"Overflow",
           {.settings = scaled,
            .gradients = {kInfinity},
            .gate = {.loss_scale = {.value = 8, .updates = 5}}}},
          {"Growth",
           {.settings = scaled,
            .gate = {.loss_scale = {.value = 8, .updates = LossScale::kGrowthSteps - 1}}}}};
}

std::vector<float> NumbersOf(const UpdateOutputs& outputs) {
  return {static_cast<float>(outputs.result.outcome),
          static_cast<float>(outputs.result.gradient_norm),
          outputs.result.loss_scale.value,
          outputs.update.applies ? 1.0f : 0.0f,
          outputs.update.gradient_scale,
          outputs.gate.closed ? 1.0f : 0.0f,
          static_cast<float>(outputs.gate.skipped_in_a_row),
          static_cast<float>(outputs.gate.skipped_steps),
          static_cast<float>(outputs.update.step),
          outputs.gate.loss_scale.value,
          outputs.states.front()};
}

}  // namespace

CheckGroup CheckOptimizers(Backend& backend, bool large) {
  CheckGroup group{
      .name = "optimizers", .type = "float32", .tolerance = ToleranceOf(DType::kFloat32)};
  for (const NamedRule& rule : kRules) {
    CheckRule(backend, group, rule, {.size = 1003, .in_segments = true});
    if (large) CheckRule(backend, group, rule, {.size = 400'003});
  }
  return group;
}

CheckGroup CheckUpdateDecisions(Backend& backend) {
  CheckGroup group{.name = "updates", .type = "float32"};
  const auto oracle = MakeBackend({.name = "reference"});
  for (const NamedUpdate& update : Updates()) {
    CheckCase result(group, std::string(update.name),
                     fmt::format("[{}]", update.inputs.gradients.size()));
    result.Run([&] {
      result.Same("outcome, norm, scales, gate, states",
                  NumbersOf(RunUpdate(backend, update.inputs)),
                  NumbersOf(RunUpdate(*oracle, update.inputs)));
    });
  }
  return group;
}

}  // namespace lockstep::train
