// A short training against the same training on `reference`.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/backend.h"
#include "trainer/check/check_report.h"

namespace lockstep::train {

// Makes the back end for a training of that precision. Errors: as of OpenDevice.
using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(api::Precision)>;

// Trains core-cnn on synthetic data for a few steps in each precision, on the device and on
// `reference`, and compares the losses. One group for each precision.
std::vector<CheckGroup> CheckTraining(const BackendFactory& make_backend, int threads);

}  // namespace lockstep::train
