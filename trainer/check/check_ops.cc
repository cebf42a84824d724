#include "trainer/check/check_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "trainer/check/check_case.h"
#include "trainer/check/relu_jumps.h"
#include "trainer/core/half.h"

namespace lockstep::train {
namespace {

constexpr std::array kTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// What a back end is given for a case, and what it must give back.
struct OracleRun {
  StepSettings step;
  OpInputs inputs;
  OpOutputs training;
  std::vector<float> evaluation;
  Shape output;
};
struct OracleRuns {
  OracleRun exact, rounded;
};

// To a number that every type has.
void RoundToAllTypes(std::vector<float>& values) {
  for (float& value : values) {
    value = FromFloat16(ToFloat16(FromBFloat16(ToBFloat16(value))));
  }
}

bool ComputesAnotherWayInEvaluation(const OpSpec& spec) {
  return std::holds_alternative<BatchNormSpec>(spec) || std::holds_alternative<DropoutSpec>(spec);
}

OracleRun AskOracle(const OpCase& op_case, bool rounded) {
  const auto oracle = MakeBackend({.name = "reference"});
  const OpSpec spec = op_case.spec({.shape = op_case.x});
  const auto op = oracle->MakeOp(spec);
  OracleRun run{.step = op_case.step, .inputs = RandomInputs(*op, 1), .output = op->output().shape};
  if (run.step.valid == 0) run.step.valid = op_case.x[0];
  if (rounded) {
    RoundToAllTypes(run.inputs.x);
    RoundToAllTypes(run.inputs.dy);
    for (std::vector<float>& parameter : run.inputs.parameters) RoundToAllTypes(parameter);
  }
  // The gradient of padding rows is zero, as the loss makes it.
  const std::int64_t row = run.output.elements() / op_case.x[0];
  std::fill(run.inputs.dy.begin() + run.step.valid * row, run.inputs.dy.end(), 0.0f);
  constexpr float kEpsilonOfBFloat16 = 0x1p-7f;
  ZeroGradientNearJumps(spec, run.step, rounded ? kEpsilonOfBFloat16 : 1e-4f, run.inputs);
  run.training = RunOp(*oracle, *op, run.inputs, run.step);
  if (ComputesAnotherWayInEvaluation(spec)) {
    StepSettings evaluation = run.step;
    evaluation.training = false;
    run.evaluation = RunOp(*oracle, *op, run.inputs, evaluation).y;
  } else {
    run.evaluation = run.training.y;
  }
  return run;
}

class OpChecks {
 public:
  explicit OpChecks(Backend& backend) : backend_(backend) {}

  void Check(const OpCase& op_case, const OracleRuns& runs) {
    for (const DType type : kTypes) {
      const bool is_exact = type == DType::kFloat32;
      const OracleRun& run = is_exact ? runs.exact : runs.rounded;
      const bool is_image = op_case.x.rank() == 4;
      if (is_exact || !is_image) CheckOne(op_case, run, type, /*native=*/false);
      if (is_image) CheckOne(op_case, run, type, /*native=*/true);
    }
  }

  std::vector<CheckGroup> Groups() const {
    std::vector<CheckGroup> groups;
    for (const auto& [key, group] : groups_) groups.push_back(group);
    return groups;
  }

 private:
  CheckGroup& GroupOf(const OpCase& op_case, DType type) {
    const std::string name(OpName(op_case.spec({.shape = op_case.x})));
    CheckGroup& group = groups_[{name, type}];
    group.name = name;
    group.type = DTypeName(type);
    group.tolerance = ToleranceOf(type);
    return group;
  }

  TensorDesc Native(const Shape& shape, DType type) {
    TensorDesc& desc = native_[{shape.ToString(), type}];
    if (desc.shape.rank() == 0) desc = NativeDesc(backend_, shape, type);
    return desc;
  }

  void CheckOne(const OpCase& op_case, const OracleRun& run, DType type, bool native) {
    CheckCase found(GroupOf(op_case, type), op_case.name,
                    fmt::format("{}, {}", op_case.x.ToString(), native ? "native" : "dense"));
    found.Run([&] {
      const TensorDesc x =
          native ? Native(op_case.x, type) : TensorDesc{.shape = op_case.x, .dtype = type};
      Compute(op_case, run, x, found);
    });
  }

  void Compute(const OpCase& op_case, const OracleRun& run, const TensorDesc& x, CheckCase& found) {
    const auto op = op_case.Make(backend_, x);
    if (op->output().shape != run.output || op->output().dtype != x.dtype) {
      return found.Fail(fmt::format("y is {} of {}, expected {} of {}",
                                    op->output().shape.ToString(), DTypeName(op->output().dtype),
                                    run.output.ToString(), DTypeName(x.dtype)));
    }
    const OpOutputs first = RunOp(backend_, *op, run.inputs, run.step);
    if (!first.padding_fault.empty()) found.Fail(first.padding_fault);
    const auto valid =
        static_cast<std::size_t>(run.output.elements() / run.output[0] * run.step.valid);
    const auto rows = [valid](const std::vector<float>& y) { return std::span(y).first(valid); };
    found.Close("y", rows(first.y), rows(run.training.y));
    found.Close("dx", first.dx, run.training.dx);
    CloseAll("gradient of parameter", first.gradients, run.training.gradients, found);
    CloseAll("state", first.states, run.training.states, found);

    const OpOutputs second = RunOp(backend_, *op, run.inputs, run.step);
    found.Same("y of the second run", second.y, first.y);
    found.Same("dx of the second run", second.dx, first.dx);
    for (std::size_t i = 0; i < first.gradients.size(); ++i) {
      found.Same(fmt::format("gradient of parameter {} of the second run", i), second.gradients[i],
                 first.gradients[i]);
    }
    StepSettings evaluation = run.step;
    evaluation.training = false;
    found.Close("y in evaluation", rows(RunOp(backend_, *op, run.inputs, evaluation).y),
                rows(run.evaluation));
  }

  static void CloseAll(const std::string& what, const std::vector<std::vector<float>>& found,
                       const std::vector<std::vector<float>>& expected, CheckCase& result) {
    if (found.size() != expected.size()) {
      return result.Fail(
          fmt::format("found {} of {}, expected {}", found.size(), what, expected.size()));
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      result.Close(fmt::format("{} {}", what, i), found[i], expected[i]);
    }
  }

  Backend& backend_;
  std::map<std::pair<std::string, DType>, CheckGroup> groups_;
  std::map<std::pair<std::string, DType>, TensorDesc> native_;
};

}  // namespace

std::string_view OpName(const OpSpec& spec) {
  constexpr std::array<std::string_view, 12> kNames = {
      "Activation", "Add",     "BatchNorm",           "Concatenate", "Conv2d", "Dense",
      "Dropout",    "Flatten", "GlobalAveragePool2d", "LayerNorm",   "Pool2d", "ZeroPadding2d"};
  static_assert(kNames.size() == std::variant_size_v<OpSpec>);
  return kNames[spec.index()];
}

std::vector<CheckGroup> CheckOps(Backend& backend, const std::vector<OpCase>& cases,
                                 ThreadPool& pool, int threads) {
  OpChecks checks(backend);
  // A part at a time, since the numbers of all would need gigabytes.
  const auto part = 2 * static_cast<std::size_t>(threads);
  for (std::size_t first = 0; first < cases.size(); first += part) {
    const std::size_t count = std::min(part, cases.size() - first);
    std::vector<OracleRuns> runs(count);
    const absl::Status done =
        pool.ForEach(2 * count, static_cast<std::size_t>(threads), [&](std::size_t i) {
          const OpCase& op_case = cases[first + i / 2];
          OracleRuns& of_case = runs[i / 2];
          (i % 2 == 0 ? of_case.exact : of_case.rounded) = AskOracle(op_case, i % 2 != 0);
          return absl::OkStatus();
        });
    LOCKSTEP_CHECK(done.ok(), "oracle: {}", std::string(done.message()));
    for (std::size_t i = 0; i < count; ++i) checks.Check(cases[first + i], runs[i]);
  }
  return checks.Groups();
}

}  // namespace lockstep::train
