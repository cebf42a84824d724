#include "trainer/strategy/parameter_server/applied_set.h"

namespace lockstep::train {

bool AppliedSet::Contains(std::int64_t step) const {
  return step < low_water_ || beyond_.contains(step);
}

bool AppliedSet::Add(std::int64_t step) {
  if (step < low_water_ || !beyond_.insert(step).second) return false;
  while (!beyond_.empty() && *beyond_.begin() == low_water_) {
    beyond_.erase(beyond_.begin());
    ++low_water_;
  }
  return true;
}

}  // namespace lockstep::train
