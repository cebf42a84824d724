// Compiles layers to a backend's ops, inferring and checking shapes along the way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/nn/layer.h"
#include "trainer/nn/model.h"
#include "trainer/nn/op_facts.h"

namespace lockstep::train {

struct NamedOp {
  // The layer's name; "cast", "flatten" or "logits" if no layer asks for the op.
  std::string name;
  std::unique_ptr<Op> op;
  std::vector<int> inputs;  // the ops whose outputs it reads, all before it, or kSamples
  // For each input, whether its dx is needed, which is so if the input depends on parameters.
  std::vector<bool> input_gradients;
  OpFacts facts;

  // False if the op has nothing to train, and nothing before it has.
  bool NeedsBackward() const;
};

// The ops in an order in which each follows its inputs. The samples are batch,C,H,W dense; the last
// op's output is batch,classes dense.
// InvalidArgument names the first layer that does not fit its input.
absl::StatusOr<std::vector<NamedOp>> CompileLayers(const std::vector<Layer>& layers,
                                                   const ModelOptions& options, Backend& backend);

}  // namespace lockstep::train
