// A histogram of small counts with fixed buckets, as Prometheus shows it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::train {

struct CountHistogram {
  // Upper bounds; one more bucket holds larger counts.
  static constexpr std::array<std::int64_t, 9> kBounds = {0, 1, 2, 4, 8, 16, 32, 64, 128};

  void Observe(std::int64_t count) {
    const auto bucket = std::ranges::lower_bound(kBounds, count) - kBounds.begin();
    counts[static_cast<std::size_t>(bucket)] += 1;
    sum += count;
  }
  bool operator==(const CountHistogram&) const = default;

  std::array<std::int64_t, kBounds.size() + 1> counts{};  // not cumulative
  std::int64_t sum = 0;
};

}  // namespace lockstep::train
