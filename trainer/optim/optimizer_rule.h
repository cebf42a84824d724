// The update rule that a job's optimizer names, without a model to apply it to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/backend.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

inline constexpr char kAverageSlot[] = "average";

struct OptimizerRuleOp {
  std::unique_ptr<OptimizerOp> op;
  std::vector<std::string> slot_names;  // see Optimizer::slot_names
  // One for each slot: what all its values are before the first update. Those of an average are
  // the parameters instead.
  std::vector<float> slot_starts = std::vector<float>(slot_names.size());
  bool averages = false;  // the last slot is the average of the parameters
};

// With `ema`, the rule then averages the parameters that it has updated: one more slot, the last.
// `matrices`: those that an optimizer multiplies that does so. InvalidArgument names the field that
// is unknown or out of range.
absl::StatusOr<OptimizerRuleOp> MakeOptimizerRule(const api::OptimizerSpec& spec,
                                                  const std::optional<api::EmaSpec>& ema,
                                                  Backend& backend,
                                                  std::vector<MatrixRange> matrices = {});

// The model's parameters that an optimizer multiplies as matrices: those of two axes, the weights
// of dense layers, as in Keras, but for those whose name contains one of exclude_layers. None if
// the optimizer multiplies no matrices. InvalidArgument names an entry that is in no matrix's name.
absl::StatusOr<std::vector<MatrixRange>> MatricesOf(const api::OptimizerSpec& spec, Model& model);

// Segments of the model's parameters: each tensor with an optimizer that measures tensors, else by
// whether they decay; empty if all do. Those whose name contains one of weight_decay_exclude do
// not. InvalidArgument names an entry that is in no name.
absl::StatusOr<std::vector<OptimizerSegment>> OptimizerSegments(const api::OptimizerSpec& spec,
                                                                Model& model);

}  // namespace lockstep::train
