// How a job's loss and rate have gone over time, in a bounded number of points. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace lockstep::cli {

struct CurvePoint {
  Time time;
  std::int64_t step = 0;
  std::optional<double> loss;  // nullopt: not known
  double examples_per_second = 0;
  bool operator==(const CurvePoint&) const = default;
};

class Curve {
 public:
  static constexpr std::size_t kMostPoints = 1000;

  // Adds a point; no-op for one of the same step as the last. One of an earlier time has that of
  // the last: the clock was set back, and the curve goes on. When there are too many, points are
  // left out evenly over the time; the first and the last stay.
  void Add(CurvePoint point);
  const std::vector<CurvePoint>& points() const { return points_; }

 private:
  std::vector<CurvePoint> points_;
  Duration least_gap_{};  // between two points, except before the last
};

// A list with [milliseconds since 1970, step, loss or null, examples per second] of each point.
nlohmann::ordered_json ToJson(const Curve& curve);
// Passes over what ToJson would not have written.
Curve CurveFromJson(const nlohmann::json& list);

}  // namespace lockstep::cli
