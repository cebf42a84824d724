// From layers to a back end's ops: shapes are followed through the list and checked on the way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/nn/layer.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

struct NamedOp {
  std::string name;  // the layer's
  std::unique_ptr<Op> op;
  bool input_gradient = false;  // dx is wanted: a parameter lies before this op
};

// The first op takes batch,C,H,W dense, the last gives batch,classes dense. InvalidArgument names
// the first layer that does not fit its input.
absl::StatusOr<std::vector<NamedOp>> CompileLayers(const std::vector<Layer>& layers,
                                                   const ModelOptions& options, Backend& backend);

}  // namespace lockstep::train
