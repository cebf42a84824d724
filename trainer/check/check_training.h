// Short trainings against the same trainings on `reference`, and with their steps recorded.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/backend.h"
#include "trainer/check/check_report.h"

namespace lockstep::train {

// Makes the back end for a training of that precision. Errors: as for OpenDevice.
using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(api::Precision)>;

// Trains core-cnn on synthetic data for a few steps in each precision, on the device and on
// `reference`, and compares the losses. One group for each precision.
std::vector<CheckGroup> CheckTraining(const BackendFactory& make_backend, int threads);

// Trains core-cnn, and a small model with every kind of layer whose work changes from step to step,
// on the device in each precision, with recorded steps and without, and as in training with one
// step begun while another one runs. Both must give the same bits, and a device that records steps
// must have recorded them. No group for a back end that records none.
std::vector<CheckGroup> CheckRecordedSteps(const BackendFactory& make_backend, int threads);

}  // namespace lockstep::train
