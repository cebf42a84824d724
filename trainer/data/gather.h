// Fills one rank's batch for one step from a data set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"

namespace lockstep::train {

// Returns a batch with room for every row and, if Gather mixes, for partners, so that Gather does
// not allocate.
Batch MakeBatch(const Dataset& dataset, const StepPlan& plan, bool mixes = false);
// The bytes of its elements.
std::size_t BatchBytes(const Dataset& dataset, const StepPlan& plan, bool mixes = false);

// Overwrites all of `batch` with the rows of `step`, which options.threads read unless the data is
// in memory, and options.augment changes; the other arguments alone determine the batch. An error
// is that of the first row that cannot be read (Dataset::Read's), or DataLoss if its label is not
// one of the data set's classes.
absl::Status Gather(const Dataset& dataset, const LoaderOptions& options, std::int64_t step,
                    Batch& batch);

}  // namespace lockstep::train
