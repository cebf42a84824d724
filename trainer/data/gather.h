// Fills one rank's batch for one step from a data set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"
#include "trainer/data/shards.h"

namespace lockstep::train {

// Returns a batch with room for every row and, if Gather mixes, for partners, so that Gather does
// not allocate.
Batch MakeBatch(const Dataset& dataset, const StepPlan& plan, bool mixes = false);
// The bytes of its elements.
std::size_t BatchBytes(const Dataset& dataset, const StepPlan& plan, bool mixes = false);

// The orders of a loader's epochs. Keeps the last one: to make it takes memory for each replica.
// Not thread-safe.
class EpochOrders {
 public:
  // Requires: `options` outlives this, and only its rank changes meanwhile.
  explicit EpochOrders(const LoaderOptions& options) : options_(options) {}
  EpochOrders(const EpochOrders&) = delete;
  EpochOrders& operator=(const EpochOrders&) = delete;
  const EpochOrder& Of(std::int64_t epoch);

 private:
  const LoaderOptions& options_;
  std::int64_t epoch_ = -1;
  std::optional<EpochOrder> order_;
};

// Overwrites all of `batch` with the rows of `step`, which options.threads read unless the data is
// in memory, and options.augment changes; the other arguments alone determine the batch. `orders`
// are those of `options`. An error is that of the first row that cannot be read (Dataset::Read's),
// or DataLoss if its label is not one of the data set's classes.
absl::Status Gather(const Dataset& dataset, const LoaderOptions& options, std::int64_t step,
                    EpochOrders& orders, Batch& batch);

}  // namespace lockstep::train
