// A histogram of durations with fixed buckets, exported to Prometheus.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::train {

// Not thread-safe.
struct DurationHistogram {
  // Inclusive upper bounds in seconds, from steps of small models on a GPU to checkpoints of large
  // models on a slow disk. One more bucket holds longer durations.
  static constexpr std::array<double, 16> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

  void Observe(double seconds);
  std::int64_t count() const;  // of all buckets

  std::array<std::int64_t, kBounds.size() + 1> counts{};  // by bucket, not cumulative
  double sum = 0;                                         // seconds
};

}  // namespace lockstep::train
