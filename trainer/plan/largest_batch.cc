#include "trainer/plan/largest_batch.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/status.h"

namespace lockstep::train {

std::int64_t FirstOf(std::int64_t begin, std::int64_t end,
                     const std::function<bool(std::int64_t)>& is_true) {
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (is_true(middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

// From one fall to the next, memory grows: what fits there is found by bisection. The ranges are
// searched from the last one down.
absl::StatusOr<std::int64_t> LargestThatFits(
    std::int64_t most, std::vector<std::int64_t> falls,
    const std::function<absl::StatusOr<bool>(std::int64_t rows)>& fits) {
  falls.push_back(1);
  std::ranges::sort(falls, std::greater());
  for (const std::int64_t first : falls) {
    if (first < 1 || first > most) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const bool any, fits(first));
    if (any) {
      std::int64_t largest = first, too_many = most + 1;
      while (too_many - largest > 1) {
        const std::int64_t rows = largest + (too_many - largest) / 2;
        LOCKSTEP_ASSIGN_OR_RETURN(const bool is_enough, fits(rows));
        (is_enough ? largest : too_many) = rows;
      }
      return largest;
    }
    most = first - 1;
  }
  return 0;
}

}  // namespace lockstep::train
