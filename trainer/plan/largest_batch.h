// Searches the largest batch with which a job fits. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Returns the first number of [begin, end) of which `is_true`, or `end`. Requires: it is true of
// every number after the first.
std::int64_t FirstOf(std::int64_t begin, std::int64_t end,
                     const std::function<bool(std::int64_t)>& is_true);

// Returns the largest number of rows in [1, most] that fits, or 0 if none does. `falls`: where the
// need for memory may fall, that is, where so many rows may need less than one row fewer; elsewhere
// it grows with the rows. Errors: the first of `fits`.
absl::StatusOr<std::int64_t> LargestThatFits(
    std::int64_t most, std::vector<std::int64_t> falls,
    const std::function<absl::StatusOr<bool>(std::int64_t rows)>& fits);

}  // namespace lockstep::train
