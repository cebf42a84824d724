#include <fmt/format.h>

#include <optional>

#include "trainer/nn/layer.h"

namespace lockstep::train {
namespace {

const char* NameOf(OutputActivation activation) {
  return activation == OutputActivation::kSoftmax ? "softmax" : "sigmoid";
}

// Returns the activation that the loss applies, or nullopt.
std::optional<OutputActivation> ActivationOf(OutputKind kind) {
  if (kind == OutputKind::kClassLogits) return OutputActivation::kSoftmax;
  if (kind == OutputKind::kBinaryLogits) return OutputActivation::kSigmoid;
  return std::nullopt;
}

}  // namespace

absl::Status RemoveOutputActivation(const ModelOutputs& outputs, std::vector<Layer>& layers) {
  if (layers.empty()) return absl::OkStatus();
  const Layer& last = layers.back();
  const auto* found = std::get_if<OutputSpec>(&last.spec);
  const std::optional<OutputActivation> expected = ActivationOf(outputs.kind);
  const auto fault = [&](const std::string& text) {
    return absl::InvalidArgumentError(fmt::format("layers[{}]: {}", last.index, text));
  };
  if (found == nullptr) {
    if (outputs.from_logits.value_or(true) || !expected) return absl::OkStatus();
    return fault(
        fmt::format("the model ends without {0}, but loss.fromLogits is false; expected "
                    "the activation {0}, or fromLogits true",
                    NameOf(*expected)));
  }
  if (!expected || *expected != found->activation) {
    return fault(fmt::format("the model ends in {}, expected {} for this loss",
                             NameOf(found->activation), expected ? NameOf(*expected) : "numbers"));
  }
  if (outputs.from_logits.value_or(false)) {
    return fault(
        fmt::format("the model ends in {0}, but loss.fromLogits is true, so that {0} "
                    "would apply twice; expected one of the two",
                    NameOf(found->activation)));
  }
  layers.pop_back();  // it reads the layer before, which no other can read
  return absl::OkStatus();
}

}  // namespace lockstep::train
