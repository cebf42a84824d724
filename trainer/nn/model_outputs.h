// What a loss expects of a model's last layer.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::train {

enum class OutputKind {
  kClassLogits,   // one for each class, before a softmax
  kBinaryLogits,  // one for each number of a label, before a sigmoid
  kNumbers,       // one for each number of a label
};

struct ModelOutputs {
  OutputKind kind = OutputKind::kClassLogits;
  // Whether the layers end without the activation; absent: either way.
  std::optional<bool> from_logits = {};
};

}  // namespace lockstep::train
