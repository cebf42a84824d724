// Divides one data set into a training and a test set.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Returns the two parts of `whole`, which share it: `fraction` of the samples (rounded, at least
// one) are the test set, drawn by `seed`, and the others the training set. The parts are disjoint
// and together are `whole`: a pure function of (seed, whole->size(), fraction).
// Requires: 0 < fraction < 1. DataLoss: `whole` has fewer than two samples.
absl::StatusOr<TrainAndTest> DivideDataset(const std::shared_ptr<const Dataset>& whole,
                                           double fraction, std::uint64_t seed);

}  // namespace lockstep::train
