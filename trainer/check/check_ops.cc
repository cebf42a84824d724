#include "trainer/check/check_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"
#include "trainer/check/check_case.h"
#include "trainer/check/oracle_run.h"

namespace lockstep::train {
namespace {

// A type in which a case runs.
struct CheckedType {
  DType type;
  std::string_view name;
  double tolerance;
  InputNumbers numbers;
};
CheckedType Checked(DType type, InputNumbers numbers) {
  return {
      .type = type, .name = DTypeName(type), .tolerance = ToleranceOf(type), .numbers = numbers};
}

// Tensor cores do not round the sums of a product as float32 does: they drop what is beyond its
// last bit. Factors of fewer bits would still give errors above 2^-12.
constexpr double kToleranceOfTF32 = 1e-4;

class OpChecks {
 public:
  explicit OpChecks(Backend& backend) : backend_(backend) {}

  void Check(const OpCase& op_case, const OracleRun& run, const CheckedType& checked) {
    const bool is_image = op_case.x.rank() == 4;
    if (checked.type == DType::kFloat32 || !is_image) {
      CheckOne(op_case, run, checked, /*native=*/false);
    }
    if (is_image) CheckOne(op_case, run, checked, /*native=*/true);
  }

  std::vector<CheckGroup> Groups() const {
    std::vector<CheckGroup> groups;
    for (const auto& [key, group] : groups_) groups.push_back(group);
    return groups;
  }

 private:
  CheckGroup& GroupOf(const OpCase& op_case, const CheckedType& checked) {
    const std::string name(OpName(op_case.spec({.shape = op_case.x})));
    CheckGroup& group = groups_[{name, checked.type}];
    group.name = name;
    group.type = checked.name;
    group.tolerance = checked.tolerance;
    return group;
  }

  TensorDesc Native(const Shape& shape, DType type) {
    TensorDesc& desc = native_[{shape.ToString(), type}];
    if (desc.shape.rank() == 0) desc = NativeDesc(backend_, shape, type);
    return desc;
  }

  void CheckOne(const OpCase& op_case, const OracleRun& run, const CheckedType& checked,
                bool native) {
    const DType type = checked.type;
    CheckCase found(GroupOf(op_case, checked), op_case.name,
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
    if (!first.restore_fault.empty()) found.Fail(first.restore_fault);

    const OpOutputs second = RunOp(backend_, *op, run.inputs, run.step);
    found.Same("y of the second run", second.y, first.y);
    found.Same("dx of the second run", second.dx, first.dx);
    SameAll("gradient of parameter", "of the second run", second.gradients, first.gradients, found);
    SameAll("state", "of the second run", second.states, first.states, found);
    StepSettings settings = run.step;
    settings.training = false;
    const OpOutputs evaluation = RunOp(backend_, *op, run.inputs, settings);
    if (!evaluation.padding_fault.empty()) {
      found.Fail("in evaluation, " + evaluation.padding_fault);
    }
    found.Close("y in evaluation", rows(evaluation.y), rows(run.evaluation));
    SameAll("state", "after an evaluation", evaluation.states, run.inputs.states, found);
  }

  // Both are of the same op.
  static void SameAll(const char* what, const char* when,
                      const std::vector<std::vector<float>>& found,
                      const std::vector<std::vector<float>>& expected, CheckCase& result) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      result.Same(fmt::format("{} {} {}", what, i, when), found[i], expected[i]);
    }
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

// Checks each case in each type. The oracle is asked of some cases at a time, since the numbers of
// all would need gigabytes.
std::vector<CheckGroup> CheckIn(const std::vector<CheckedType>& types, Backend& backend,
                                const std::vector<OpCase>& cases, ThreadPool& pool, int threads) {
  std::vector<InputNumbers> numbers;  // of the types, each once
  for (const CheckedType& checked : types) {
    if (std::ranges::count(numbers, checked.numbers) == 0) numbers.push_back(checked.numbers);
  }
  OpChecks checks(backend);
  const auto part = 2 * static_cast<std::size_t>(threads);
  for (std::size_t first = 0; first < cases.size(); first += part) {
    const std::size_t count = std::min(part, cases.size() - first);
    std::vector<std::map<InputNumbers, OracleRun>> runs(count);
    for (auto& of_case : runs) {
      for (const InputNumbers each : numbers) of_case[each];
    }
    const absl::Status done =
        pool.ForEach(numbers.size() * count, static_cast<std::size_t>(threads), [&](std::size_t i) {
          const InputNumbers asked = numbers[i % numbers.size()];
          const std::size_t at = i / numbers.size();
          runs[at].at(asked) = AskOracle(cases[first + at], asked);
          return absl::OkStatus();
        });
    LOCKSTEP_CHECK(done.ok(), "oracle: {}", std::string(done.message()));
    for (std::size_t i = 0; i < count; ++i) {
      for (const CheckedType& checked : types) {
        checks.Check(cases[first + i], runs[i].at(checked.numbers), checked);
      }
    }
  }
  return checks.Groups();
}

bool Multiplies(const OpCase& op_case) {
  const OpSpec spec = op_case.spec({.shape = op_case.x});
  return std::holds_alternative<Conv2dSpec>(spec) || std::holds_alternative<DenseSpec>(spec);
}

}  // namespace

std::vector<CheckGroup> CheckOps(Backend& backend, const std::vector<OpCase>& cases,
                                 ThreadPool& pool, int threads) {
  return CheckIn({Checked(DType::kFloat32, InputNumbers::kFloat32),
                  Checked(DType::kBFloat16, InputNumbers::kShort),
                  Checked(DType::kFloat16, InputNumbers::kShort)},
                 backend, cases, pool, threads);
}

std::vector<CheckGroup> CheckTF32Ops(Backend& backend, const std::vector<OpCase>& cases,
                                     ThreadPool& pool, int threads) {
  std::vector<OpCase> multiplying;
  std::ranges::copy_if(cases, std::back_inserter(multiplying), Multiplies);
  return CheckIn({{.type = DType::kFloat32,
                   .name = "TF32",
                   .tolerance = kToleranceOfTF32,
                   .numbers = InputNumbers::kTF32}},
                 backend, multiplying, pool, threads);
}

}  // namespace lockstep::train
