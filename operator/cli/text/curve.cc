#include "operator/cli/text/curve.h"

#include <algorithm>

#include "operator/cli/text/millis.h"
#include "operator/cli/text/or_null.h"

namespace lockstep::cli {

void Curve::Add(CurvePoint point) {
  if (!points_.empty()) {
    if (point.step == points_.back().step) return;
    point.time = std::max(point.time, points_.back().time);
    const bool replaces =
        points_.size() > 1 && points_.back().time - points_[points_.size() - 2].time < least_gap_;
    if (replaces) points_.pop_back();
  }
  points_.push_back(point);
  if (points_.size() < kMostPoints) return;
  // All may be of one time, if the clock was set back far.
  least_gap_ = std::max(Duration(1), Duration(points_.back().time - points_.front().time) /
                                         static_cast<int>(kMostPoints / 2));
  std::vector<CurvePoint> kept = {points_.front()};
  for (const CurvePoint& old : points_) {
    if (old.time - kept.back().time >= least_gap_) kept.push_back(old);
  }
  if (kept.back() != points_.back()) kept.push_back(points_.back());
  points_ = std::move(kept);
}

nlohmann::ordered_json ToJson(const Curve& curve) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CurvePoint& point : curve.points()) {
    list.push_back({Millis(point.time), point.step, OrNull(point.loss), point.examples_per_second});
  }
  return list;
}

Curve CurveFromJson(const nlohmann::json& list) {
  Curve curve;
  for (const nlohmann::json& entry : list) {
    if (!entry.is_array() || entry.size() != 4 || !entry[0].is_number_integer() ||
        !entry[1].is_number_integer() || !entry[3].is_number()) {
      continue;
    }
    CurvePoint point;
    point.time = Time(std::chrono::milliseconds(entry[0].get<std::int64_t>()));
    point.step = entry[1].get<std::int64_t>();
    if (entry[2].is_number()) point.loss = entry[2].get<double>();
    point.examples_per_second = entry[3].get<double>();
    curve.Add(point);
  }
  return curve;
}

}  // namespace lockstep::cli
