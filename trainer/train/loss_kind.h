// What each loss of TrainingJob means for data, model and back end.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/op_spec.h"
#include "trainer/data/dataset.h"
#include "trainer/nn/model_outputs.h"

namespace lockstep::train {

// True if the loss reads LossOp::Memory::targets, not labels.
bool ReadsTargets(api::LossType type);
// How data of `format` must read its labels. A binary loss takes the numbers of files that have
// some, and of other formats the classes.
LabelKind LabelKindOf(api::LossType type, api::DatasetFormat format);
// Nullopt: the loss is a softmax cross-entropy.
std::optional<ElementwiseLoss> ElementwiseLossOf(api::LossType type);
// DataLoss: a label is not one that the loss takes: numbers from 0 to 1 for a crossentropy, which
// add up to 1 if they are those of classes.
absl::Status CheckLabels(api::LossType type, const Dataset& data);
// How many values the last layer must give for a sample of `data`. InvalidArgument: the labels do
// not fit the loss.
absl::StatusOr<std::int64_t> CountOutputs(api::LossType type, const Dataset& data);
ModelOutputs OutputsOf(const api::LossSpec& loss);

}  // namespace lockstep::train
