// Short trainings against the same trainings on `reference`, and with their steps recorded.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/check/check_report.h"

namespace lockstep::train {

using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>()>;

// Trains core-cnn on synthetic data for a few steps in each precision, on the device and on
// `reference`, and compares the losses. One group for each precision.
std::vector<CheckGroup> CheckTraining(const BackendFactory& make_backend, int threads);

// Trains core-cnn on the device in each precision, with recorded steps and without. Both must give
// the same bits. No group for a device that records none.
std::vector<CheckGroup> CheckRecordedSteps(const BackendFactory& make_backend, int threads);

}  // namespace lockstep::train
