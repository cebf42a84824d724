// Cuts a compiled model into stages, which processes compute one after the other (Huang et al.,
// "GPipe", 2019). Pure: it depends only on the ops, so all processes of a job find the same cut.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/nn/compile.h"
#include "trainer/nn/flat_tensors.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

// Returns the first op of each stage, ascending from 0. A stage has consecutive ops and at least
// one parameter, and reads one tensor of the stage before and nothing else of earlier ones. Of
// these cuts, takes one whose slowest stage takes the least time, and of those that are as fast but
// for 5 %, one whose largest stage takes the least memory. Time is estimated from operations and
// bytes moved, memory from parameters and the outputs of the micro-batches that a stage holds.
// InvalidArgument: the model has fewer such stages; names how many. Requires: stages >= 1.
absl::StatusOr<std::vector<int>> CutIntoStages(const std::vector<NamedOp>& ops, int stages);

// What one process has of a model, and what it knows of the rest.
struct ModelPart {
  // Those of its stage. The output of the stage before is kSamples to them.
  std::vector<NamedOp> ops;
  FlatTensors parameters, states;  // of the whole model
  // Which of the whole model's come first here.
  std::size_t first_parameter = 0, first_state = 0;
  // Equal on processes that cut alike, and have the same layouts between stages.
  std::string fingerprint;
};

// Leaves the ops of `stage`. Errors: as for CutIntoStages.
absl::StatusOr<ModelPart> TakeStage(std::vector<NamedOp> ops, const ModelStage& stage);

}  // namespace lockstep::train
