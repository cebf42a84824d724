#include "trainer/train/loss_kind.h"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "api/v1/enum_names.h"
#include "api/v1/format_traits.h"
#include "base/check.h"

namespace lockstep::train {
namespace {

// The gradient of a crossentropy of classes, p - label, is that of its loss only for labels which
// are a distribution. The sum leaves room for those that a program has divided in float32.
absl::Status CheckLabel(api::LossType type, std::span<const float> label) {
  double sum = 0;
  for (const float number : label) {
    sum += number;
    if (number >= 0 && number <= 1) continue;
    return absl::DataLossError(
        fmt::format("found {} in its label, expected 0 to 1 for {}", number, api::NameOf(type)));
  }
  constexpr double kRounding = 0.05;  // of numbers that were written with two decimals
  const bool is_binary = type == api::LossType::kBinaryCrossentropy;
  if (is_binary || std::abs(sum - 1) <= kRounding) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("found numbers in its label that add up to {:.6g}, expected 1 for {}", sum,
                  api::NameOf(type)));
}

}  // namespace

bool ReadsTargets(api::LossType type) {
  return type != api::LossType::kSparseCategoricalCrossentropy;
}

LabelKind LabelKindOf(api::LossType type, api::DatasetFormat format) {
  const api::FormatLabels labels = api::TraitsOf(format).labels;
  const bool has_numbers =
      labels == api::FormatLabels::kNumber || labels == api::FormatLabels::kNumbers;
  if (type == api::LossType::kBinaryCrossentropy && !has_numbers) return LabelKind::kTwoClasses;
  return ReadsTargets(type) ? LabelKind::kNumbers : LabelKind::kClasses;
}

std::optional<ElementwiseLoss> ElementwiseLossOf(api::LossType type) {
  switch (type) {
    case api::LossType::kSparseCategoricalCrossentropy:
    case api::LossType::kCategoricalCrossentropy:
      return std::nullopt;
    case api::LossType::kBinaryCrossentropy:
      return ElementwiseLoss::kBinaryCrossEntropy;
    case api::LossType::kMeanSquaredError:
      return ElementwiseLoss::kSquaredError;
    case api::LossType::kMeanAbsoluteError:
      return ElementwiseLoss::kAbsoluteError;
    case api::LossType::kHuber:
      return ElementwiseLoss::kHuber;
  }
  return std::nullopt;
}

absl::Status CheckLabels(api::LossType type, const Dataset& data) {
  if (!api::IsCrossentropy(type)) return absl::OkStatus();
  const bool is_binary = type == api::LossType::kBinaryCrossentropy;
  if (!is_binary && data.targets() < 2) return absl::OkStatus();  // CountOutputs refuses them
  std::vector<float> numbers(static_cast<std::size_t>(data.targets()));
  for (std::int64_t i = 0; !numbers.empty() && i < data.size(); ++i) {
    data.ReadTargets(i, numbers);
    const absl::Status checked = CheckLabel(type, numbers);
    if (checked.ok()) continue;
    return absl::DataLossError(
        fmt::format("{}: {}", data.PlaceOf(i), std::string(checked.message())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> CountOutputs(api::LossType type, const Dataset& data) {
  const std::int64_t targets = data.targets(), classes = data.classes();
  const auto fault = [&](const std::string& found, const std::string& expected) {
    return absl::InvalidArgumentError(
        fmt::format("spec.training.loss.type: found {} with {}, "
                    "expected {}",
                    api::NameOf(type), found, expected));
  };
  switch (type) {
    case api::LossType::kSparseCategoricalCrossentropy:
      return classes;
    case api::LossType::kCategoricalCrossentropy:
      if (targets >= 2) return targets;
      return fault(fmt::format("labels of {} numbers", targets), "one for each class, at least 2");
    case api::LossType::kBinaryCrossentropy:
      if (targets > 0) return targets;
      if (classes <= 2) return 1;
      return fault(fmt::format("labels of {} classes", classes), "2 classes, 0 and 1");
    case api::LossType::kMeanSquaredError:
    case api::LossType::kMeanAbsoluteError:
    case api::LossType::kHuber:
      if (targets > 0) return targets;
      return fault("labels that are classes",
                   "numbers, as in formats " + api::NamesOfFormats(api::MayHaveNumbers, " and "));
  }
  LOCKSTEP_CHECK(false, "unknown loss {}", static_cast<int>(type));
  return 0;
}

ModelOutputs OutputsOf(const api::LossSpec& loss) {
  OutputKind kind = OutputKind::kNumbers;
  if (api::IsCrossentropy(loss.type)) {
    kind = ElementwiseLossOf(loss.type) ? OutputKind::kBinaryLogits : OutputKind::kClassLogits;
  }
  return {.kind = kind, .from_logits = loss.from_logits};
}

}  // namespace lockstep::train
