// Consecutive values of a flat memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::train {

// In floats.
struct FlatRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const FlatRange&) const = default;
};

// The values that are in both; with a size of 0 if there are none.
inline FlatRange Intersection(const FlatRange& a, const FlatRange& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace lockstep::train
