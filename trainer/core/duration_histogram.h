// How often a duration fell into each of a fixed set of ranges: what a Prometheus histogram shows.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::train {

struct DurationHistogram {
  // Upper bounds in seconds, from steps of small models on a GPU to checkpoints of large ones on a
  // slow disk; above is one more.
  static constexpr std::array<double, 16> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

  void Observe(double seconds);
  std::int64_t count() const;

  std::array<std::int64_t, kBounds.size() + 1> counts{};  // not cumulative
  double sum = 0;
};

}  // namespace lockstep::train
