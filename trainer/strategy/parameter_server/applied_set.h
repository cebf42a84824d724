// The steps that a shard has applied: a low-water mark and what lies beyond it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

namespace lockstep::train {

// Workers finish out of order but stay close together, so the set beyond the mark is small. Not
// thread-safe.
class AppliedSet {
 public:
  // All steps below `low_water` are applied.
  explicit AppliedSet(std::int64_t low_water = 0) : low_water_(low_water) {}

  // Returns false if `step` was applied before.
  bool Add(std::int64_t step);
  bool Contains(std::int64_t step) const;
  std::int64_t low_water() const { return low_water_; }
  std::size_t beyond() const { return beyond_.size(); }

 private:
  std::int64_t low_water_;
  std::set<std::int64_t> beyond_;
};

}  // namespace lockstep::train
