#include "trainer/core/duration_histogram.h"

#include <algorithm>
#include <numeric>

namespace lockstep::train {

void DurationHistogram::Observe(double seconds) {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts[static_cast<std::size_t>(bound - kBounds.begin())];
  sum += seconds;
}

std::int64_t DurationHistogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace lockstep::train
